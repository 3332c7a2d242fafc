// Hidden rows for tensor cores that multiply 16-bit numbers: a row becomes two columns of hi/lo parts, so that nothing
// of it is rounded away that matters (|error| <= 3e-5 * sum |h * w|). Splitting numbers so that low-precision products
// add up to a precise one goes back to Dekker 1971, "A floating-point technique for extending the available precision".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "../../common/dependent_launch.cuh"
#include "../epilogue.cuh"

namespace lm_head {

// Rows of parts are padded with zeros to a multiple of this many columns.
constexpr int kPartsMultiple = 128;

// How a hidden row was split: h = (high + low * 2^-lowShift) * scale, up to less than 2^-17 |h|.
struct SplitRow {
  float scale;  // a power of two
  // Not split, because no pair of parts holds every element (NaN, infinities, or too wide a range of magnitudes): fp32
  // arithmetic serves this row.
  int needsFp32;
};

// Number: the type of a part. `splittable` is told the smallest magnitude that is not 0 and the largest.
template <class Number>
struct SplitTraits;

template <>
struct SplitTraits<__nv_bfloat16> {
  static constexpr int kLowShift = 0;
  // bfloat16 has the exponents of float32, so nothing is scaled, but the low part needs 16 binades below.
  static __device__ bool splittable(float smallest, float largest) {
    return smallest >= 0x1p-100f && largest <= 0x1.fcp127f;
  }
  static __device__ int exponent(float) { return 0; }
  static __device__ __nv_bfloat16 round(float x) { return __float2bfloat16_rn(x); }
  static __device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ int64_t place(int64_t column) { return column; }
};

template <>
struct SplitTraits<__half> {
  // The largest element gets exponent 14, so its remainder is at most 2^3; 2^12 times that still fits.
  static constexpr int kLowShift = 12;
  static __device__ bool splittable(float smallest, float largest) {
    return smallest >= largest * 0x1p-32f && (largest == 0.0f || (largest >= 0x1p-80f && largest <= 0x1p100f));
  }
  static __device__ int exponent(float largest) { return largest == 0.0f ? 0 : ilogbf(largest) - 14; }
  static __device__ __half round(float x) { return __float2half_rn(x); }
  static __device__ float widen(__half x) { return __half2float(x); }
  static __device__ int64_t place(int64_t column) { return column; }
};

// tf32, the 19 upper bits of a float32.
template <>
struct SplitTraits<float> {
  static constexpr int kLowShift = 0;
  static __device__ bool splittable(float smallest, float largest) {
    return smallest >= 0x1p-90f && largest <= 0x1p126f;
  }
  static __device__ int exponent(float) { return 0; }
  static __device__ float round(float x) {
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
  }
  static __device__ float widen(float x) { return x; }
  // A lane loads 4 neighbouring weights at once: columns 4t .. 4t+3 of 16 are terms t and t+4 of two products.
  static __device__ int64_t place(int64_t column) {
    const int64_t lane = column % 16 / 4, i = column % 4;
    return column / 16 * 16 + i / 2 * 8 + i % 2 * 4 + lane;
  }
};

// Splits hidden rows into parts [2 * gridDim.x, partsStride]: column 2r holds the high parts of row r, 2r+1 the low
// ones. A block a row; rows behind the last one and columns behind hiddenSize become zeros. Also empties the row's
// pool.
template <class Number>
__global__ void splitHiddenKernel(const float* hidden, int64_t rows, int64_t hiddenSize, int64_t partsStride,
                                  Number* parts, SplitRow* splitRows, RowPool pool) {
  using Traits = SplitTraits<Number>;
  triggerDependentLaunch();
  const int64_t row = blockIdx.x;
  if (row < rows) clearRow(pool, row);
  Number* high = parts + 2 * row * partsStride;
  Number* low = high + partsStride;
  const float* source = hidden + row * hiddenSize;

  float largest = 0.0f, smallest = INFINITY;
  int finite = 1;
  if (row < rows) {
    for (int64_t i = threadIdx.x; i < hiddenSize; i += blockDim.x) {
      const float magnitude = fabsf(source[i]);
      finite &= magnitude <= 0x1.fffffep127f;
      largest = fmaxf(largest, magnitude);
      if (magnitude != 0.0f) smallest = fminf(smallest, magnitude);
    }
  }
  __shared__ float warpLargest[32], warpSmallest[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    smallest = fminf(smallest, __shfl_xor_sync(0xffffffffu, smallest, offset));
  }
  if (threadIdx.x % 32 == 0) {
    warpLargest[threadIdx.x / 32] = largest;
    warpSmallest[threadIdx.x / 32] = smallest;
  }
  finite = __syncthreads_and(finite);
  for (int warp = 0; warp < blockDim.x / 32; ++warp) {
    largest = fmaxf(largest, warpLargest[warp]);
    smallest = fminf(smallest, warpSmallest[warp]);
  }
  const bool needsFp32 = !finite || !Traits::splittable(smallest, largest);
  const int exponent = needsFp32 ? 0 : Traits::exponent(largest);
  if (threadIdx.x == 0 && row < rows) splitRows[row] = {scalbnf(1.0f, exponent), needsFp32};

  for (int64_t i = threadIdx.x; i < partsStride; i += blockDim.x) {
    const float x = row < rows && !needsFp32 && i < hiddenSize ? scalbnf(source[i], -exponent) : 0.0f;
    const Number rounded = Traits::round(x);
    high[Traits::place(i)] = rounded;
    low[Traits::place(i)] = Traits::round(scalbnf(x - Traits::widen(rounded), Traits::kLowShift));
  }
}

struct SplitParams {
  const void* parts;  // [2 * rowsPerBlock * gridDim.y, partsStride]
  int64_t partsStride;
  const SplitRow* splitRows;  // [rows]
};

// A score's last steps before bias: the sums of the high and the low parts, put together.
template <class Number>
__device__ inline float joinParts(float high, float low) {
  // An infinite or NaN weight shows in the high sum; the low one may then hold 0 * inf, which is not an answer.
  const bool finite = fabsf(high) <= 0x1.fffffep127f;
  constexpr float kLowScale = 1.0f / (1 << SplitTraits<Number>::kLowShift);
  return finite ? fmaf(low, kLowScale, high) : high;
}

// A block's threads, its first kRows at least, load its rows; those behind the last look like rows that are not split.
template <int kRows>
__device__ inline void loadSplitRows(const SplitRow* splitRows, int rows, SplitRow* shared) {
  for (int row = threadIdx.x; row < kRows; row += blockDim.x)
    shared[row] = row < rows ? splitRows[row] : SplitRow{1.0f, true};
}

// Emits a fragment's scores of those rows that are split.
template <class Reductions, int kPairs>
__device__ __forceinline__ void emitSplit(Reductions& reductions, const SplitRow* splitRows, const IdPair& ids,
                                          float (&sums)[kPairs][2], int unit) {
  reductions.emitFragment(ids, sums, unit, [&](int row) {
    return RowFinish{splitRows[row].scale, !splitRows[row].needsFp32};
  });
}

}  // namespace lm_head
