// Log of the sum of the exponentials of scores, on the CPU. Scores come in blocks, each block gives an ExpSum, and the
// sums are merged in the order of the blocks.
#pragma once

#include <cstdint>

namespace lm_head {

// Scores of a block, at most.
constexpr int kExpSumBlock = 256;

struct ExpSum {
  int32_t largest;  // order key, so that NaN stands out
  double sum;       // of exp(score - largest); of no meaning where `largest` is not finite
};

ExpSum expSumOf(const float* scores, int count);

// Log of the sum of `count` blocks, `stride` apart: NaN where a score is NaN, else +inf where one is +inf, else -inf
// where all are -inf.
float logOfExpSums(const ExpSum* blocks, int64_t count, int64_t stride);

}  // namespace lm_head
