// The log-sum-exp of scores that come in any order and any grouping, with the same bits for all of them: a sum of
// exponentials in fixed point, wide enough that adding never rounds (as in the superaccumulators of Kulisch, "Computer
// Arithmetic and Validity", and of Demmel and Nguyen, "Parallel Reproducible Summation"). What is added is a term: what
// 64 neighbouring ids give, counted from a multiple of 64, so that a cut of the vocabulary at such multiples changes no
// term.
#pragma once

#include <cmath>
#include <cstdint>

#include "host_device.h"

namespace lm_head {

// Ids of a term; a vocabulary's last term may have fewer.
constexpr int kLogSumTermIds = 64;

// sum * e^max. `max` is the largest score of the term and no other number, for it decides how `sum` was rounded; `sum`,
// in [1, 64], is a float sum of exp(score - max) in an order that is fixed by the ids' places in the term alone. A max
// of -inf stands for no sum at all, one of +inf for infinity, NaN for NaN; `sum` means nothing there.
struct LogSumTerm {
  float max;
  float sum;
};

// A number is cut into windows of 16 binary digits; window w has those worth 2^(16w) to 2^(16w + 15). Five windows are
// kept: one above that of the largest score of all, its own, and three below. Each has a limb, a plain sum of pieces
// that is never carried into the next, so that all of it is integer arithmetic. What is below the lowest window is
// dropped, of each term for itself: below 2^-48 of the largest exponential, so a vocabulary of 2^31 ids loses at most
// 2^-23 of its sum.
//
// Which windows are kept follows from the largest score, and what a term adds to them from the term alone. So the limbs
// in the end are the same whatever the order was, and a GPU may find the largest score first, then add up terms by
// addAt() in as many places as it likes, then these limbs by integer additions.
struct LogSum {
  static constexpr int kLimbs = 5;
  static constexpr int kWords = 12;  // of 32 bits, as it travels

  float max;              // the largest score so far, never -0
  int64_t limbs[kLimbs];  // window windowOf(max) + 1, and those below; all 0 where max is not finite

  static LM_HEAD_HOST_DEVICE LogSum empty() { return {-INFINITY, {}}; }

  // The window in which e^max ends, as a double, for scores may be as large as floats: where doubles are further apart
  // than 1, windows are so too, and whatever is computed with them is exact or so large that its sign is enough.
  // Infinities and NaN have themselves.
  static LM_HEAD_HOST_DEVICE double windowOf(float max) { return floor(floor(binaryExponent(max)) / 16.0); }

  // Adds a term to limbs of which limbs[1] belongs to `window`; that must not be below the term's own. Nothing where
  // one of the two is not finite.
  static LM_HEAD_HOST_DEVICE void addAt(double window, const LogSumTerm& term, int64_t (&limbs)[kLimbs]) {
    const double exponent = binaryExponent(term.max), whole = floor(exponent);
    const double own = floor(whole / 16.0), below = window - own;
    if (!(below <= kLimbs - 1)) return;  // the difference of two infinities is NaN
    const double mantissa = static_cast<double>(term.sum) * exp2(exponent - whole);  // in [1, 128)
    // At most 39 digits, then 54: those of windows own - 2 to own + 1.
    const int64_t digits = static_cast<int64_t>(mantissa * 0x1p32 + 0.5) << static_cast<int>(whole - 16.0 * own);
    const int first = static_cast<int>(below);
#ifdef __CUDA_ARCH__
#pragma unroll  // so that limbs can be registers
#endif
    for (int limb = 0; limb < kLimbs; ++limb) {
      const int piece = 3 - (limb - first);  // from the lowest
      if (piece >= 0 && piece <= 3) limbs[limb] += digits >> 16 * piece & 0xffff;
    }
  }

  // The larger one; NaN is above all.
  static LM_HEAD_HOST_DEVICE float larger(float max, float score) {
    const bool isNan = score != score;
    if (max != max || !(isNan || score > max)) return max;
    return isNan ? NAN : score == 0.0f ? 0.0f : score;
  }

  // Makes `max` the larger of itself and `score`.
  LM_HEAD_HOST_DEVICE void raise(float score) {
    if (max != max || score <= max) return;
    const double up = windowOf(score) - windowOf(max);
    max = larger(max, score);
    if (up == 0.0) return;
    const int by = up < kLimbs ? static_cast<int>(up) : kLimbs;  // all of them also where it is NaN
    for (int limb = kLimbs - 1; limb >= 0; --limb) limbs[limb] = limb >= by ? limbs[limb - by] : 0;
  }

  LM_HEAD_HOST_DEVICE void add(const LogSumTerm& term) {
    raise(term.max);
    addAt(windowOf(max), term, limbs);
  }

  LM_HEAD_HOST_DEVICE void add(const LogSum& other) {
    raise(other.max);
    const double below = windowOf(max) - windowOf(other.max);
    if (!(below <= kLimbs - 1)) return;
    for (int limb = static_cast<int>(below); limb < kLimbs; ++limb) {
      limbs[limb] += other.limbs[limb - static_cast<int>(below)];
    }
  }

  LM_HEAD_HOST_DEVICE LogSum operator+(const LogSum& other) const {
    LogSum sum = *this;
    sum.add(other);
    return sum;
  }

  // The logarithm: NaN where a score was NaN, else +inf where one was, -inf where there was none above it. Never below
  // the largest score, which the rounding of a sum near 1 could otherwise lead to.
  LM_HEAD_HOST_DEVICE float value() const {
    if (!(max - max == 0.0f)) return max;
    double sum = 0.0;
    for (int limb = kLimbs - 1; limb >= 0; --limb) sum = sum * 0x1p-16 + static_cast<double>(limbs[limb]);
    // limbs[0] is worth 2^16.
    const double log = product(16.0 * windowOf(max) + 16.0, kLog2) + ::log(sum);
    const float rounded = static_cast<float>(log);
    return rounded > max ? rounded : max;
  }

  LM_HEAD_HOST_DEVICE void store(int32_t* words) const {
    union {
      float asFloat;
      int32_t asInt;
    } bits{max};
    words[0] = bits.asInt;
    words[1] = 0;
    for (int limb = 0; limb < kLimbs; ++limb) {
      words[2 + 2 * limb] = static_cast<int32_t>(limbs[limb] & 0xffffffff);
      words[3 + 2 * limb] = static_cast<int32_t>(limbs[limb] >> 32);
    }
  }

  static LM_HEAD_HOST_DEVICE LogSum load(const int32_t* words) {
    union {
      int32_t asInt;
      float asFloat;
    } bits{words[0]};
    LogSum sum{bits.asFloat, {}};
    for (int limb = 0; limb < kLimbs; ++limb) {
      sum.limbs[limb] = static_cast<int64_t>(words[3 + 2 * limb]) * (int64_t{1} << 32) +
                        static_cast<int64_t>(static_cast<uint32_t>(words[2 + 2 * limb]));
    }
    return sum;
  }

 private:
  static constexpr double kLog2 = 0.693147180559945309417;
  static constexpr double kLog2E = 1.44269504088896340736;

  // Not to be fused with an addition, in one kernel so and in another otherwise. On the host, files that include this
  // are compiled with -ffp-contract=off.
  static LM_HEAD_HOST_DEVICE double product(double a, double b) {
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    return a * b;
#endif
  }

  static LM_HEAD_HOST_DEVICE double binaryExponent(float max) { return product(static_cast<double>(max), kLog2E); }
};

}  // namespace lm_head
