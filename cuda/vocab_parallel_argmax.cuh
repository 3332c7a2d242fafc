// Device code of the vocab-parallel argmax: a block a slice scans, a warp a row picks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/order.h"
#include "vocab_parallel_argmax.h"

namespace lm_head {

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }

__device__ inline Key warpBest(Key key) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Key other = __shfl_xor_sync(0xffffffffu, key, offset);
    key = other > key ? other : key;
  }
  return key;
}

// Grid (kArgmaxSlices, rows). An empty slice gives kWorstKey, as (-2^31, 2^31 - 1).
template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads) localArgmaxKernel(LocalArgmaxArgs args) {
  const int64_t sliceSize = (args.vocabSize + kArgmaxSlices - 1) / kArgmaxSlices;
  const int64_t begin = blockIdx.x * sliceSize;
  const int64_t end = min(begin + sliceSize, args.vocabSize);
  for (int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* logits = static_cast<const T*>(args.logits) + row * args.rowStride;
    Key best = kWorstKey;
#pragma unroll 8
    for (int64_t column = begin + threadIdx.x; column < end; column += kThreads) {
      const Key key = makeKey(widen(logits[column * args.columnStride]), static_cast<uint32_t>(column));
      best = key > best ? key : best;
    }
    __shared__ Key warpBests[kThreads / 32];
    best = warpBest(best);
    if (threadIdx.x % 32 == 0) warpBests[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x < 32) {
      best = warpBest(threadIdx.x < kThreads / 32 ? warpBests[threadIdx.x] : kWorstKey);
      if (threadIdx.x == 0) {
        int32_t* pair = args.candidates + (row * kArgmaxSlices + blockIdx.x) * 2;
        pair[0] = keyOrder(best);
        pair[1] = static_cast<int32_t>(keyId(best) + (best == kWorstKey ? 0 : args.vocabStart));
      }
    }
    __syncthreads();
  }
}

// A warp a row.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    pickKernel(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens) {
  const int lane = threadIdx.x % 32;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (row >= rows) return;
  Key best = kWorstKey;
  for (int64_t i = lane; i < ranks * kArgmaxSlices; i += 32) {
    const int64_t rank = i / kArgmaxSlices, slice = i % kArgmaxSlices;
    const int32_t* pair = candidates + ((rank * rows + row) * kArgmaxSlices + slice) * 2;
    const Key key = makeKey(pair[0], static_cast<uint32_t>(pair[1]));
    best = key > best ? key : best;
  }
  best = warpBest(best);
  if (lane == 0) tokens[row] = static_cast<int32_t>(keyId(best));
}

}  // namespace lm_head
