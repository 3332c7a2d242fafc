// What the main loops of binary heads share: from exact integer dot products of groups to scores.
#pragma once

#include <cuda_fp16.h>

#include "../../../kernels/core/binary_layout.h"
#include "../epilogue.cuh"

namespace lm_head {

// How the bytes of quantized hidden lie, see quantizeHiddenKernel.
enum class HiddenForm { kPlanes, kBytes, kSwizzledBytes };

// Quantized hidden of a row group, in scratch memory and in a block's shared memory alike: one piece, so that all of it
// is loaded at once.
struct BinaryHidden {
  int rows;    // of a row group
  int blocks;  // of 128 columns
  int groups;  // that have bases, padded to quads; or 0

  __host__ __device__ BinaryHidden(int rows, const BinaryLayout& layout, HiddenForm form)
      : rows(rows),
        blocks(static_cast<int>(layout.blocks())),
        groups(form == HiddenForm::kPlanes ? static_cast<int>(layout.quads()) * BinaryLayout::kQuadGroups : 0) {}

  // A byte a column, then an integer for each row and group, then a scale a row.
  __host__ __device__ int operandBytes() const { return rows * blocks * 128; }
  __host__ __device__ int bytes() const { return (operandBytes() + rows * (groups + 1) * 4 + 15) / 16 * 16; }
  template <class Byte>
  __device__ auto* bases(Byte* hidden) const {
    return reinterpret_cast<int*>(hidden + operandBytes());
  }
  template <class Byte>
  __device__ auto* scales(Byte* hidden) const {
    return reinterpret_cast<float*>(hidden + operandBytes() + rows * groups * 4);
  }

  // All kThreads threads of a block: from scratch to shared memory, without a barrier.
  template <int kThreads>
  __device__ void load(unsigned char* shared, const unsigned char* hidden) const {
    for (int i = threadIdx.x; i < bytes() / 16; i += kThreads) {
      reinterpret_cast<uint4*>(shared)[i] = reinterpret_cast<const uint4*>(hidden)[i];
    }
  }
};

struct BinaryParams {
  const unsigned char* hidden;  // [row groups, BinaryHidden::bytes()]
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

// A weight is a byte of +64 or -64: bits need only be shifted, the others blanked, and the byte's upper two bits
// flipped.
constexpr int kWeightShift = 6;
constexpr float kWeightUnit = 1.0f / (1 << kWeightShift);

// What makes such bytes; for a lane whose columns do not count, zeros.
struct WeightBytes {
  uint32_t sign, flip;
  explicit __device__ WeightBytes(bool counts) : sign(counts ? 0x80808080u : 0), flip(counts ? 0xc0c0c0c0u : 0) {}

  // Of bits s, s+8, s+16, s+24.
  __device__ uint32_t of(uint32_t word, int s) const {
    uint32_t bytes;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(bytes) : "r"(word << (7 - s)), "r"(sign), "r"(flip));
    return bytes;
  }

  // Of the words of ids g and g+8: four steps of 32 columns.
  __device__ void expand(uint32_t lower, uint32_t upper, uint32_t (&a)[4][4]) const {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      a[step][0] = of(lower, 2 * step), a[step][1] = of(upper, 2 * step);
      a[step][2] = of(lower, 2 * step + 1), a[step][3] = of(upper, 2 * step + 1);
    }
  }
};

__device__ inline void addScaledDot(float& sum, int dot, float scale) {
  sum = __fadd_rn(sum, scaledDot(dot, scale, -kFloatValue * scale));
}

// Four scales of an id.
__device__ inline void loadScales(const unsigned char* quad, int id, float (&scales)[4]) {
  const uint2 halves = reinterpret_cast<const uint2*>(quad)[id];
  const float2 low = __half22float2(reinterpret_cast<const __half2&>(halves.x));
  const float2 high = __half22float2(reinterpret_cast<const __half2&>(halves.y));
  scales[0] = low.x, scales[1] = low.y, scales[2] = high.x, scales[3] = high.y;
}

// A unit's sums from a lane's running ones, four each of: id g, column 2t of eight rows; id g, column 2t+1; then of id
// g+8. `unit`: a power of two, what the running sums count in.
template <int kTiles>
__device__ inline void addRunningSums(const float (&running)[kTiles][4][4], float unit, float (&sums)[2 * kTiles][2]) {
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {  // row 4i + t, see columnOfRow
#pragma unroll
    for (const int half : {0, 1}) {
      const float(&four)[4] = running[i / 2][2 * half + i % 2];
      sums[i][half] = __fadd_rn(__fadd_rn(four[0], four[1]), __fadd_rn(four[2], four[3])) * unit;
    }
  }
}

}  // namespace lm_head
