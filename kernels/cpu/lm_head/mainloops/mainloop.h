// The main loops of the CPU: each knows one kind of head and makes sums of a few vocabulary ids against a few hidden
// rows. What a sum becomes is the epilogue's business (core/finish.h).
#pragma once

#include <memory>

#include "../../../core/lm_head_topk_args.h"
#include "../../cpu_math.h"

namespace lm_head {

// Ids whose sums are made together.
constexpr int kCpuTileIds = 16;

// Made once for a call, with hidden as this main loop wants it; `sum` is called by many threads.
class Mainloop {
 public:
  virtual ~Mainloop() = default;

  // What a row's sums are to be multiplied by: [rows], or null where that is 1.
  virtual const float* rowScales() const { return nullptr; }

  // Scratch that `sum` needs for so many rows, for each thread.
  virtual int64_t scratchLines(int rows) const = 0;

  // Sums of ids [firstId, firstId + ids), at most kCpuTileIds from a multiple of that, against rows [firstRow, firstRow
  // + rows), to sums [rows, kCpuTileIds], rows of `stride`. What it leaves behind `ids` means nothing.
  virtual void sum(int64_t firstId, int ids, int64_t firstRow, int rows, CacheLine* scratch, float* sums,
                   int64_t stride) const = 0;
};

std::unique_ptr<Mainloop> makeDenseMainloop(const LmHeadTopKArgs& args);
std::unique_ptr<Mainloop> makeBinaryMainloop(const LmHeadTopKArgs& args);

}  // namespace lm_head
