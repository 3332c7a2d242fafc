// What is kept of the scores, on the CPU. A reduction knows neither formats nor options.
#pragma once

#include <cstdint>

namespace lm_head {

// Made for some rows that are scored together. Each worker has its own part, so workers need not wait for each other.
class Reduction {
 public:
  virtual ~Reduction() = default;

  // Takes the scores of ids [firstId, firstId + ids), counted from this shard's first; firstId is a multiple of
  // kReductionIds, ids at most as many, and fewer only at the end of the vocabulary. A worker's ids ascend.
  virtual void take(int worker, int row, const float* scores, int ids, int64_t firstId) = 0;

  // Puts together what the workers have, and writes the results of row `row` to place `out` of all rows.
  virtual void write(int row, int64_t out) = 0;
};

// Ids whose scores are kept for a while.
constexpr int kReductionIds = 256;

}  // namespace lm_head
