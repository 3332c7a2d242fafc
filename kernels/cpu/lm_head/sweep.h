// A call on the CPU, planned once: threads walk over blocks of ids; a main loop makes sums, the epilogue scores, and
// the reductions keep what is wanted of them.
#pragma once

#include <memory>
#include <vector>

#include "../../core/finish.h"
#include "adjust_index.h"
#include "mainloops/mainloop.h"
#include "reductions/reduction.h"

namespace lm_head {

struct CpuPlan {
  LmHeadTopKArgs args;
  CpuAdjustIndex adjustIndex;
  std::unique_ptr<Mainloop> mainloop;
  EpilogueParams epilogue;
  int rowsTogether;  // scored in one walk over the weights
  int threads;
  int64_t blocks;  // of kReductionIds ids; the same ones however many threads there are

  explicit CpuPlan(const LmHeadTopKArgs& args);
  // All that is to be kept of rows [firstRow, firstRow + rows).
  std::vector<std::unique_ptr<Reduction>> reductions(int64_t firstRow, int rows) const;
};

void sweep(const CpuPlan& plan);

}  // namespace lm_head
