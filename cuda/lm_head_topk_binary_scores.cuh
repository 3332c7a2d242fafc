// What the scorers of binary heads share: from exact integer dot products of groups to scores.
#pragma once

#include <cuda_fp16.h>

#include "common/binary_layout.h"
#include "lm_head_topk_scan.cuh"

namespace lm_head {

struct BinaryScorerParams {
  const void* operand;
  const int* bases;
  const float* rowScales;
};

// Integers from here to 2^22 further on are, as the bits of a float32, 1.5 * 2^23 plus the same distance. So a group's
// dot product d, kept as kFloatBits + d, turns into float(d) * scale with a single rounding by one fused multiply-add:
// (kFloatValue + d) * scale - kFloatValue * scale, where the last product is exact, for a scale has 11 bits.
constexpr int kFloatBits = 0x4b400000;
constexpr float kFloatValue = 12582912.0f;
// BinaryLayout::kMaxGroupSize keeps |d| in that range.

// fl(d * scale) of bits = kFloatBits + d; offset = -kFloatValue * scale.
__device__ inline float scaledDot(int bits, float scale, float offset) {
  return __fmaf_rn(__int_as_float(bits), scale, offset);
}

// Bits s, s+8, s+16, s+24 of a word as bytes of 0 or 2, or, by shifts to the left, which compilers can leave to the
// multiplier, of 0 or 128.
template <int s, bool kLarge>
__device__ inline uint32_t bytesOfBits(uint32_t word) {
  if constexpr (kLarge) return (word << (7 - s)) & 0x80808080u;
  return (s == 0 ? word << 1 : word >> (s - 1)) & 0x02020202u;
}

// Of the words of ids g and g+8: four steps of 32 columns.
template <bool kLarge>
__device__ inline void expandBits(uint32_t lower, uint32_t upper, uint32_t (&a)[4][4]) {
  a[0][0] = bytesOfBits<0, kLarge>(lower), a[0][1] = bytesOfBits<0, kLarge>(upper);
  a[0][2] = bytesOfBits<1, kLarge>(lower), a[0][3] = bytesOfBits<1, kLarge>(upper);
  a[1][0] = bytesOfBits<2, kLarge>(lower), a[1][1] = bytesOfBits<2, kLarge>(upper);
  a[1][2] = bytesOfBits<3, kLarge>(lower), a[1][3] = bytesOfBits<3, kLarge>(upper);
  a[2][0] = bytesOfBits<4, kLarge>(lower), a[2][1] = bytesOfBits<4, kLarge>(upper);
  a[2][2] = bytesOfBits<5, kLarge>(lower), a[2][3] = bytesOfBits<5, kLarge>(upper);
  a[3][0] = bytesOfBits<6, kLarge>(lower), a[3][1] = bytesOfBits<6, kLarge>(upper);
  a[3][2] = bytesOfBits<7, kLarge>(lower), a[3][3] = bytesOfBits<7, kLarge>(upper);
}

__device__ inline void addScaledDot(float& sum, int dot, float scale) {
  sum = __fadd_rn(sum, scaledDot(dot, scale, -kFloatValue * scale));
}

// Bytes of 128 make dots 64 times too large, which scales of a 64th put right, exactly.
constexpr int kLargeFactor = 64;
__device__ inline int largeBase(int base) { return kFloatBits + (base - kFloatBits) * kLargeFactor; }

// Four scales of an id, for such dots.
__device__ inline void loadLargeScales(const unsigned char* quad, int id, float (&scales)[4]) {
  const uint2 halves = reinterpret_cast<const uint2*>(quad)[id];
  const float2 low = __half22float2(reinterpret_cast<const __half2&>(halves.x));
  const float2 high = __half22float2(reinterpret_cast<const __half2&>(halves.y));
  constexpr float kUnit = 1.0f / kLargeFactor;
  scales[0] = low.x * kUnit, scales[1] = low.y * kUnit, scales[2] = high.x * kUnit, scales[3] = high.y * kUnit;
}

// Finishes and offers the scores of a unit's ids from a lane's running sums, four each of: id g, column 2t of eight
// rows; id g, column 2t+1; then of id g+8.
template <int kTiles, class Lists>
__device__ inline void offerUnit(const LmHeadTopKArgs& args, int64_t firstId, int rows, const float* rowScales,
                                 const float (&sums)[kTiles][4][4], Lists& lists, LogSums& logSums) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int64_t id = firstId + g;
  float bias[2], scores[2 * kTiles][2];
  for (int half = 0; half < 2; ++half) bias[half] = biasOf(args.bias, min(id + 8 * half, args.vocabSize - 1));
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {
    const int row = 4 * i + t;  // see columnOfRow
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scores[i][half] = -INFINITY;
      if (row >= rows || id + 8 * half >= args.vocabSize) continue;
      const float(&four)[4] = sums[i / 2][2 * half + i % 2];
      const float sum = __fadd_rn(__fadd_rn(four[0], four[1]), __fadd_rn(four[2], four[3]));
      scores[i][half] = finishScore(__fmul_rn(sum, rowScales[row]), bias[half]);
      lists.offer(row, scores[i][half], static_cast<uint32_t>(id + 8 * half));
    }
  }
  if (logSums.wanted()) logSums.add(scores);
}

}  // namespace lm_head
