// The epilogue: from a sum, as a main loop leaves it, to the score that ranks. Its arithmetic stands here alone, for
// CPU and GPU.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace lm_head {

// Multiplying by the one and adding the other change no float, not even -0.
constexpr float kNoRowScale = 1.0f;
constexpr float kNoBias = -0.0f;

struct EpilogueParams {
  const float* rowScale;  // [rows], or null; binary: what a quantized row is multiplied by
  const float* bias;      // [vocabSize], or null

  LM_HEAD_HOST_DEVICE float rowScaleOf(int64_t row) const { return rowScale == nullptr ? kNoRowScale : rowScale[row]; }
  LM_HEAD_HOST_DEVICE float biasOf(int64_t id) const { return bias == nullptr ? kNoBias : bias[id]; }
};

// Where row scale and bias are at hand already: a kernel loads them long before the sum is there. Each step rounds
// once, for the bits of binary scores are defined so: never a fused multiply-add. On the host, files that include this
// are compiled with -ffp-contract=off. What else an option makes of a score comes behind the bias, in the order in
// which lmHeadTopK documents its options.
LM_HEAD_HOST_DEVICE inline float finishLoaded(float sum, float rowScale, float bias) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(__fmul_rn(sum, rowScale), bias);
#else
  return sum * rowScale + bias;
#endif
}

// The score of token `id`, counted from this shard's first, in hidden row `row`.
LM_HEAD_HOST_DEVICE inline float finish(const EpilogueParams& params, int64_t row, int64_t id, float sum) {
  return finishLoaded(sum, params.rowScaleOf(row), params.biasOf(id));
}

}  // namespace lm_head
