// Scores of a few vocabulary ids against a few hidden rows, on the CPU.
#pragma once

#include <memory>

#include "../cuda/lm_head_topk_args.h"

namespace lm_head {

// Ids that are scored together.
constexpr int kCpuTileVocab = 16;

// Made once for a call; `score` is called by many threads.
class CpuScorer {
 public:
  virtual ~CpuScorer() = default;

  // Scratch floats that `score` needs for each thread.
  virtual int64_t scratchSize() const = 0;

  // Scores of ids [firstId, firstId + ids) against rows [firstRow, firstRow + rows), bias included, to scores [ids,
  // rows].
  virtual void score(int64_t firstId, int ids, int64_t firstRow, int rows, float* scratch, float* scores) const = 0;

  static std::unique_ptr<CpuScorer> create(const LmHeadTopKArgs& args);
};

std::unique_ptr<CpuScorer> createDenseCpuScorer(const LmHeadTopKArgs& args);
std::unique_ptr<CpuScorer> createBinaryCpuScorer(const LmHeadTopKArgs& args);

}  // namespace lm_head
