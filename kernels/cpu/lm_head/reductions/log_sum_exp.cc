#include "log_sum_exp.h"

#include <algorithm>
#include <limits>

#include "../../cpu_math.h"

namespace lm_head {
namespace {

#if defined(__x86_64__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

constexpr int kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
static_assert(kReductionIds % kLogSumTermIds == 0, "terms begin at multiples of their size");

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

// Of kLogSumTermIds scores, of which those behind the vocabulary are -inf. The sum is a tree over the places in the
// term: 64 to 16 lanes, then to 8, 4, 2 and 1.
FOR_EACH_CPU LogSumTerm termOf(const float* scores) {
  float largest[kLanes];
  int32_t nans[kLanes] = {};
  for (float& max : largest) max = -kInfinity;
  for (int i = 0; i < kLogSumTermIds; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float score = scores[i + lane];
      largest[lane] = score > largest[lane] ? score : largest[lane];
      nans[lane] |= score != score;
    }
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      largest[lane] = std::max(largest[lane], largest[lane + half]);
      nans[lane] |= nans[lane + half];
    }
  }
  const float max = largest[0];
  if (nans[0]) return {std::numeric_limits<float>::quiet_NaN(), 0.0f};
  if (max == kInfinity || max == -kInfinity) return {max, 0.0f};
  float exps[kLogSumTermIds];
  for (int i = 0; i < kLogSumTermIds; ++i) exps[i] = expOfNegative(scores[i] - max);
  for (int half = kLogSumTermIds / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) exps[i] += exps[i + half];
  }
  return {max, exps[0]};
}

}  // namespace

void LogSumExp::take(int worker, int row, const float* scores, int ids, int64_t) {
  LogSum& sum = sums_[worker * rows_ + row];
  int first = 0;
  for (; first + kLogSumTermIds <= ids; first += kLogSumTermIds) sum.add(termOf(scores + first));
  if (first == ids) return;
  float last[kLogSumTermIds];
  std::fill(std::copy(scores + first, scores + ids, last), std::end(last), -kInfinity);
  sum.add(termOf(last));
}

void LogSumExp::write(int row, int64_t out) {
  LogSum sum = LogSum::empty();
  for (uint64_t part = row; part < sums_.size(); part += rows_) sum.add(sums_[part]);
  if (args_.logSumExp != nullptr) args_.logSumExp[out] = sum.value();
  if (args_.logSumState != nullptr) sum.store(args_.logSumState + out * LogSum::kWords);
}

}  // namespace lm_head
