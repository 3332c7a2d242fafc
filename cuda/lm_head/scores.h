// Scores of given ids alone, reading their weights alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "lm_head.h"

namespace lm_head {

// Ids of each row of args; of args, k and what belongs to reductions are not looked at.
struct ScoresArgs {
  LmHeadTopKArgs head;
  const int32_t* ids;  // [rows, count], as they are returned
  int64_t count;
  float* scores;  // [rows, count]; NaN for ids that this head does not have
};

// The bits are those that a sweep gives these scores: it is that sweep, over a head that is made of copies of their
// weights.
cudaError_t lmHeadScoresScratchBytes(const ScoresArgs& args, size_t* bytes, const Tuning& tuning = {});
cudaError_t launchLmHeadScores(const ScoresArgs& args, void* scratch, cudaStream_t stream, const Tuning& tuning = {});

}  // namespace lm_head
