#include "exp_sum_cpu.h"

#include <algorithm>
#include <cmath>

#include "../core/order.h"
#include "cpu_math.h"

namespace lm_head {
namespace {

#if defined(__x86_64__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

// exp(x) for x <= 0 to about 1e-7 of itself, 1e-38 for anything below. No branch, so that loops over it become vector
// instructions. It is 2^n exp(x - n log 2), the latter by Taylor's series for arguments of at most half of log 2.
inline float expOfNegative(float x) {
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504f + 0x1.8p23f;  // n in its low bits
  const float n = shifted - 0x1.8p23f;
  const float rest = (x - n * 0x1.62ep-1f) - n * 0x1.0bfbe8p-15f;  // n times the first part of log 2 is exact
  float sum = 1.0f / 5040;
  sum = sum * rest + 1.0f / 720;
  sum = sum * rest + 1.0f / 120;
  sum = sum * rest + 1.0f / 24;
  sum = sum * rest + 1.0f / 6;
  sum = sum * rest + 0.5f;
  sum = sum * rest + 1.0f;
  sum = sum * rest + 1.0f;
  return sum * bitCast<float>((bitCast<uint32_t>(shifted) + 127u) << 23);
}

// orderKey without branches; a zero's sign does not matter here.
FOR_EACH_CPU int32_t largestKey(const float* scores, int count) {
  int32_t largest = INT32_MIN;
  for (int i = 0; i < count; ++i) {
    const int32_t bits = bitCast<int32_t>(scores[i]);
    const int32_t key = scores[i] != scores[i] ? INT32_MAX : bits ^ ((bits >> 31) & 0x7fffffff);
    largest = key > largest ? key : largest;
  }
  return largest;
}

FOR_EACH_CPU double sumOfExps(const float* scores, int count, float largest) {
  float exps[kExpSumBlock];
  for (int i = 0; i < count; ++i) exps[i] = expOfNegative(scores[i] - largest);
  constexpr int kLanes = 8;
  const int whole = count / kLanes * kLanes;
  double lanes[kLanes] = {};
  for (int i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += exps[i + lane];
  }
  double sum = 0.0;
  for (const double lane : lanes) sum += lane;
  for (int i = whole; i < count; ++i) sum += exps[i];
  return sum;
}

}  // namespace

ExpSum expSumOf(const float* scores, int count) {
  const int32_t key = largestKey(scores, count);
  const float largest = orderedValue(key);
  return {key, std::isfinite(largest) ? sumOfExps(scores, count, largest) : 0.0};
}

float logOfExpSums(const ExpSum* blocks, int64_t count, int64_t stride) {
  int32_t key = INT32_MIN;
  for (int64_t i = 0; i < count; ++i) key = std::max(key, blocks[i * stride].largest);
  const double largest = orderedValue(key);
  if (!std::isfinite(largest)) return orderedValue(key);
  double total = 0.0;
  for (int64_t i = 0; i < count; ++i) {
    const ExpSum& block = blocks[i * stride];
    total += block.sum * std::exp(orderedValue(block.largest) - largest);
  }
  return static_cast<float>(largest + std::log(total));
}

}  // namespace lm_head
