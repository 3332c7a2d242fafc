// Scores of a few vocabulary ids against a few hidden rows, on the CPU.
#pragma once

#include <memory>

#include "../core/lm_head_topk_args.h"
#include "cpu_math.h"

namespace lm_head {

// Ids that are scored together.
constexpr int kCpuTileVocab = 16;

// Rows that are scored together, at most: how often the weights are read from memory, and how much scratch that takes.
constexpr int kCpuTileRows = 64;

// Made once for a call; `score` is called by many threads.
class CpuScorer {
 public:
  virtual ~CpuScorer() = default;

  // Scratch that `score` needs for so many rows, for each thread.
  virtual int64_t scratchLines(int rows) const = 0;

  // Scores of ids [firstId, firstId + ids) against rows [firstRow, firstRow + rows), bias included, to scores [rows,
  // kCpuTileVocab], rows of `scoreStride`. What it leaves behind `ids` means nothing.
  virtual void score(int64_t firstId, int ids, int64_t firstRow, int rows, CacheLine* scratch, float* scores,
                     int64_t scoreStride) const = 0;

  static std::unique_ptr<CpuScorer> create(const LmHeadTopKArgs& args);
};

std::unique_ptr<CpuScorer> createDenseCpuScorer(const LmHeadTopKArgs& args);
std::unique_ptr<CpuScorer> createBinaryCpuScorer(const LmHeadTopKArgs& args);

}  // namespace lm_head
