// A main loop's sums as tensor cores leave them: of 16 ids, a lane of a warp has two, and every fourth row. Lane 4g + t
// has ids g and g + 8, and of row 4i + t the sums [i][0] and [i][1].
#pragma once

#include <cstdint>

#include "../../kernels/core/finish.h"
#include "../../kernels/core/lm_head_topk_args.h"

namespace lm_head {

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
    for (const int half : {0, 1}) set(args, half, g + 8 * half < ids);
  }

  // Where registers are few until sums are there: all 16 ids, from the lower one, or kNoId.
  static constexpr uint32_t kNoId = 0xffffff00u;
  static __device__ IdPair ofLower(const LmHeadTopKArgs& args, uint32_t lower) {
    IdPair ids;
    ids.lower = lower;
    for (const int half : {0, 1}) ids.set(args, half, true);
    return ids;
  }

 private:
  __device__ void set(const LmHeadTopKArgs& args, int half, bool summed) {
    const int64_t id = static_cast<int64_t>(lower) + 8 * half;
    scored[half] = summed && id < args.vocabSize;
    bias[half] = scored[half] ? EpilogueParams{nullptr, args.bias}.biasOf(id) : 0.0f;
  }
};

}  // namespace lm_head
