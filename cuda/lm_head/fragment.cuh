// A main loop's sums as tensor cores leave them: of 16 ids, a lane of a warp has two, and every fourth row. Lane 4g + t
// has ids g and g + 8, and of row 4i + t the sums [i][0] and [i][1].
#pragma once

#include <cstdint>

#include "../../kernels/core/lm_head_topk_args.h"

namespace lm_head {

// The bias of an id, to be loaded early; where there is none, what changes no score when it is added.
__device__ inline float biasOf(const float* bias, int64_t id) { return bias == nullptr ? -0.0f : bias[id]; }

// The two ids of 16 that a lane of a warp scores. `bias` is to be loaded long before it is needed.
struct IdPair {
  uint32_t lower = 0;
  bool scored[2] = {false, false};  // not those behind the vocabulary
  float bias[2] = {0.0f, 0.0f};

  // No ids.
  __device__ IdPair() {}

  // `ids` of 16: with less, the main loop has no sums for the others.
  __device__ IdPair(const LmHeadTopKArgs& args, int64_t firstId, int ids = 16) {
    const int g = threadIdx.x % 32 / 4;
    lower = static_cast<uint32_t>(firstId + g);
    for (const int half : {0, 1}) {
      const int64_t id = firstId + g + 8 * half;
      scored[half] = g + 8 * half < ids && id < args.vocabSize;
      bias[half] = scored[half] ? biasOf(args.bias, id) : 0.0f;
    }
  }
};

}  // namespace lm_head
