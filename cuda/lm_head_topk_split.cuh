// Hidden rows for tensor cores that multiply 16-bit numbers: a row becomes two columns of 16-bit parts, so that nothing
// of it is rounded away that matters (design: |error| <= 3e-5 * sum |h * w|).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>

#include "common/top_k_lists.cuh"

namespace lm_head {

// Rows of parts are padded with zeros to a multiple of this many columns.
constexpr int kPartsMultiple = 128;

// How a hidden row was split: h = (high + low * 2^-lowShift) * 2^exponent, up to less than 2^-17 |h|.
struct SplitRow {
  int exponent;
  // Not split, because no pair of parts holds every element (NaN, infinities, or too wide a range of magnitudes): the
  // plain scorer serves this row.
  int plain;
};

template <class Half>
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
};

template <>
struct SplitTraits<__half> {
  // The largest element gets exponent 14, so its remainder is at most 2^3; 2^12 times that still fits.
  static constexpr int kLowShift = 12;
  static __device__ bool splittable(float smallest, float largest) {
    return smallest >= largest * 0x1p-32f && largest <= 0x1.fffffep127f;
  }
  static __device__ int exponent(float largest) { return largest == 0.0f ? 0 : ilogbf(largest) - 14; }
  static __device__ __half round(float x) { return __float2half_rn(x); }
  static __device__ float widen(__half x) { return __half2float(x); }
};

// Splits hidden rows into parts [2 * gridDim.x, partsStride]: column 2r holds the high parts of row r, 2r+1 the low
// ones. A block a row; rows behind the last one and columns behind hiddenSize become zeros. Also empties the row's
// pool.
template <class Half>
__global__ void splitHiddenKernel(const float* hidden, int64_t rows, int64_t hiddenSize, int64_t partsStride,
                                  Half* parts, SplitRow* splitRows, RowPool pool) {
  using Traits = SplitTraits<Half>;
  const int64_t row = blockIdx.x;
  if (row < rows) clearRow(pool, row);
  Half* high = parts + 2 * row * partsStride;
  Half* low = high + partsStride;
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
  const bool plain = !finite || !Traits::splittable(smallest, largest);
  const int exponent = plain ? 0 : Traits::exponent(largest);
  if (threadIdx.x == 0 && row < rows) splitRows[row] = {exponent, plain};

  for (int64_t i = threadIdx.x; i < partsStride; i += blockDim.x) {
    const float x = row < rows && !plain && i < hiddenSize ? scalbnf(source[i], -exponent) : 0.0f;
    const Half rounded = Traits::round(x);
    high[i] = rounded;
    low[i] = Traits::round(scalbnf(x - Traits::widen(rounded), Traits::kLowShift));
  }
}

struct HalfScorerParams {
  const void* parts;  // [2 * rowsPerBlock * gridDim.y, partsStride] 16-bit
  int64_t partsStride;
  const SplitRow* splitRows;  // [rows]
};

// A score's last steps before bias: the sums of the high and the low parts, put together.
template <class Half>
__device__ inline float joinParts(float high, float low) {
  // An infinite or NaN weight shows in the high sum; the low one may then hold 0 * inf, which is not an answer.
  const bool finite = fabsf(high) <= 0x1.fffffep127f;
  constexpr float kLowScale = 1.0f / (1 << SplitTraits<Half>::kLowShift);
  return finite ? fmaf(low, kLowScale, high) : high;
}

}  // namespace lm_head
