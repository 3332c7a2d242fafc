// Noise of draws: a number for each seed, step, row and id, the same on every backend, whatever is drawn with it at the
// same time.
#pragma once

#include <cmath>
#include <cstdint>

#include "float_math.h"
#include "score_options.h"

namespace lm_head {

// What the noise of a call follows from, beside row and id.
struct NoiseSeed {
  uint32_t seed[2];
  uint32_t step[2];
};

struct NoiseWords {
  uint32_t words[4];
};

LM_HEAD_HOST_DEVICE inline uint32_t multiplyHigh(uint32_t a, uint32_t b) {
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
#endif
}

// Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"): key `seed`, counter (block, row,
// step). Ids `id` and `id` + 8 share a block, where the first has bit 3 clear; each has two of its four words.
LM_HEAD_HOST_DEVICE inline NoiseWords noiseWords(const NoiseSeed& seed, uint32_t row, uint32_t id) {
  uint32_t c0 = (id >> 4 << 3) | (id & 7), c1 = row, c2 = seed.step[0], c3 = seed.step[1];
  uint32_t k0 = seed.seed[0], k1 = seed.seed[1];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const uint32_t high0 = multiplyHigh(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const uint32_t high1 = multiplyHigh(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Two words as a number in (0, 1), uniform: near 0, where winners are, with all digits of a float, down to 2^-64.
LM_HEAD_HOST_DEVICE inline float uniformOf(uint32_t upper, uint32_t lower) {
  const float sum = addRounded(multiplyRounded(static_cast<float>(upper), 0x1p-32f),
                               multiplyRounded(static_cast<float>(lower | 1u), 0x1p-64f));
  return sum < 0x1.fffffep-1f ? sum : 0x1.fffffep-1f;
}

// log(x) of a normal number: the polynomial of Cephes' logf.
LM_HEAD_HOST_DEVICE inline float logRounded(float x) {
  union {
    float asFloat;
    uint32_t asInt;
  } bits{x}, mantissa;
  // x = mantissa * 2^exponent, the mantissa in [sqrt(1/2), sqrt(2)).
  const uint32_t shifted = bits.asInt - 0x3f3504f3u;
  const float exponent = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  mantissa.asInt = (shifted & 0x007fffffu) + 0x3f3504f3u;
  const float f = addRounded(mantissa.asFloat, -1.0f), square = multiplyRounded(f, f);
  float sum = 7.0376836292e-2f;
  sum = multiplyAddRounded(sum, f, -1.1514610310e-1f);
  sum = multiplyAddRounded(sum, f, 1.1676998740e-1f);
  sum = multiplyAddRounded(sum, f, -1.2420140846e-1f);
  sum = multiplyAddRounded(sum, f, 1.4249322787e-1f);
  sum = multiplyAddRounded(sum, f, -1.6668057665e-1f);
  sum = multiplyAddRounded(sum, f, 2.0000714765e-1f);
  sum = multiplyAddRounded(sum, f, -2.4999993993e-1f);
  sum = multiplyAddRounded(sum, f, 3.3333331174e-1f);
  sum = multiplyRounded(multiplyRounded(sum, f), square);
  sum = addRounded(sum, multiplyRounded(exponent, -2.12194440e-4f));
  sum = addRounded(sum, multiplyRounded(square, -0.5f));
  return addRounded(addRounded(f, sum), multiplyRounded(exponent, 0.693359375f));
}

// Standard Gumbel noise, -log(-log(1 - uniform)); log1p after Kahan: log(y) * x / (1 - y) for y = 1 - x.
LM_HEAD_HOST_DEVICE inline float gumbelOf(float uniform) {
  const float y = addRounded(1.0f, -uniform);
  const float exponential =
      y == 1.0f ? uniform : divideRounded(multiplyRounded(-logRounded(y), uniform), addRounded(1.0f, -y));
  return -logRounded(exponential);
}

// The noise of a row and id.
LM_HEAD_HOST_DEVICE inline float noiseOf(const NoiseSeed& seed, uint32_t row, uint32_t id) {
  const NoiseWords noise = noiseWords(seed, row, id);
  const bool second = (id & 8) != 0;
  return gumbelOf(second ? uniformOf(noise.words[2], noise.words[3]) : uniformOf(noise.words[0], noise.words[1]));
}

// 1 / temperature; 1 for a temperature of 0, which has no noise.
LM_HEAD_HOST_DEVICE inline float inverseTemperature(float temperature) {
  return temperature == 0.0f ? 1.0f : divideRounded(1.0f, temperature);
}

// A score as a draw ranks it.
LM_HEAD_HOST_DEVICE inline float noisy(float score, float temperature, float noise) {
  const float scaled = multiplyRounded(score, inverseTemperature(temperature));
  return temperature == 0.0f ? score : addRounded(scaled, noise);
}

// What a draw is made with; without temperatures there is none.
struct DrawOption {
  RowOption temperature;
  const uint32_t* seeds;  // [4] or [rows, 4]: lower and upper half of the seed, then of the step
  int64_t seedStride;     // 4, or 0 where all rows have the same
  const int32_t* rowIds;  // [rows], or null: their numbers
  int64_t firstRow;       // number of row 0

  LM_HEAD_HOST_DEVICE bool wanted() const { return temperature.values != nullptr; }
  LM_HEAD_HOST_DEVICE NoiseSeed seedOf(int64_t row) const {
    const uint32_t* words = seeds + row * seedStride;
    return {{words[0], words[1]}, {words[2], words[3]}};
  }
  LM_HEAD_HOST_DEVICE uint32_t rowIdOf(int64_t row) const {
    return static_cast<uint32_t>(rowIds == nullptr ? firstRow + row : rowIds[row]);
  }
  // The score of row and id as the draw ranks it.
  LM_HEAD_HOST_DEVICE float noisyScore(int64_t row, uint32_t id, float score) const {
    const float heat = temperature.of(row);
    // What is masked stays so whatever the temperature is, and takes no time.
    if (heat == 0.0f || score == -INFINITY) return score;
    return noisy(score, heat, noiseOf(seedOf(row), rowIdOf(row), id));
  }

  // That of rows from `begin` on.
  DrawOption fromRow(int64_t begin) const {
    DrawOption rest = *this;
    if (!wanted()) return rest;
    rest.temperature.values += begin * temperature.stride;
    rest.seeds += begin * seedStride;
    if (rowIds != nullptr) rest.rowIds += begin;
    rest.firstRow += begin;
    return rest;
  }
};

}  // namespace lm_head
