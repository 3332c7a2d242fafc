// A row of hidden in 8 bits, bit for bit as the plain reference does it.
#pragma once

#include <cstdint>

namespace lm_head {

// absmax / 127 of a row, or NaN for one that holds NaN or an infinity, from what each thread of the block has found:
// its largest magnitude, and whether all are finite. Every thread gets it. For whole warps, all threads of the block
// together.
__device__ inline float quantizationScale(float largest, bool finite) {
  __shared__ float warpLargest[32];
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  if (threadIdx.x % 32 == 0) warpLargest[threadIdx.x / 32] = largest;
  finite = __syncthreads_and(finite);
  for (int warp = 0; warp < static_cast<int>(blockDim.x / 32); ++warp) largest = fmaxf(largest, warpLargest[warp]);
  __syncthreads();  // before the next row's warps write
  return finite ? __fdiv_rn(largest, 127.0f) : __int_as_float(0x7fc00000);
}

// Of one magnitude more.
__device__ inline void addMagnitude(float x, float& largest, bool& finite) {
  finite &= fabsf(x) <= 0x1.fffffep127f;
  largest = fmaxf(largest, fabsf(x));
}

// Of a row.
__device__ inline float quantizationScale(const float* row, int64_t size) {
  float largest = 0.0f;
  bool finite = true;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) addMagnitude(row[i], largest, finite);
  return quantizationScale(largest, finite);
}

// Of a row, 16-byte aligned, whose size is a multiple of 4.
__device__ inline float quantizationScaleOfAligned(const float* row, int size) {
  constexpr int kLoads = 4;  // many at a time: what follows waits for memory
  const auto* quads = reinterpret_cast<const float4*>(row);
  const int count = size / 4;
  float largest = 0.0f;
  bool finite = true;
  for (int begin = threadIdx.x; begin < count; begin += kLoads * blockDim.x) {
    float4 held[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int i = begin + load * blockDim.x;
      held[load] = i < count ? quads[i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      addMagnitude(held[load].x, largest, finite);
      addMagnitude(held[load].y, largest, finite);
      addMagnitude(held[load].z, largest, finite);
      addMagnitude(held[load].w, largest, finite);
    }
  }
  return quantizationScale(largest, finite);
}

// x / scale to the nearest integer, ties to even, in [-127, 127]; 0 where the scale is 0 (also by underflow) or NaN.
__device__ inline int quantize(float x, float scale) {
  if (!(scale > 0.0f)) return 0;
  return static_cast<int>(fminf(fmaxf(rintf(__fdiv_rn(x, scale)), -127.0f), 127.0f));
}

}  // namespace lm_head
