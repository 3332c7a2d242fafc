// Device code of the vocab-parallel argmax: blocks scan slices of rows, a warp a row picks.
#pragma once

#include "../common/dependent_launch.cuh"
#include "../common/gather_step.cuh"
#include "vocab_parallel_argmax.h"
#include "vocab_parallel_argmax_best.cuh"

namespace lm_head {

// The slice [begin, end) of a row that a block scans.
struct Slice {
  uint32_t begin, end;

  __device__ Slice(int64_t vocabSize, int slices) {
    const int64_t size = (vocabSize + slices - 1) / slices;
    begin = static_cast<uint32_t>(min(blockIdx.x * size, vocabSize));
    end = static_cast<uint32_t>(min(begin + size, vocabSize));
  }
};

// An empty slice gives kWorstKey, as (-2^31, 2^31 - 1).
__device__ inline void writeCandidate(const LocalArgmaxArgs& args, int64_t row, Key best) {
  const int32_t id = static_cast<int32_t>(keyId(best) + (best == kWorstKey ? 0 : args.vocabStart));
  reinterpret_cast<int2*>(args.candidates)[row * kArgmaxSlices + blockIdx.x] = make_int2(keyOrder(best), id);
}

// Neighbouring columns lie side by side: 16 bytes a load, and single elements up to the first 16-byte boundary and
// behind the last.
template <class T, int kThreads>
__device__ Best scanContiguous(const T* logits, Slice slice) {
  constexpr uint32_t kLanes = Lanes<T>::kCount, kLoads = 4;
  const T* first = logits + slice.begin;
  const uint32_t count = slice.end - slice.begin;
  const uint32_t behindBoundary = reinterpret_cast<uintptr_t>(first) / sizeof(T) % kLanes;
  const uint32_t head = min((kLanes - behindBoundary) % kLanes, count);
  const uint32_t vectors = (count - head) / kLanes;
  const uint4* body = reinterpret_cast<const uint4*>(first + head);

  Best best;
  if (threadIdx.x < head) best.offer(widen(first[threadIdx.x]), slice.begin + threadIdx.x);
  // Of the best vector so far: the order of its largest lane, its data, its number.
  int32_t order = Best::kNone;
  uint4 data = {};
  uint32_t number = 0;
  for (uint32_t begin = threadIdx.x; begin < vectors; begin += kLoads * kThreads) {
    uint4 loaded[kLoads];
#pragma unroll
    for (uint32_t load = 0; load < kLoads; ++load) {
      if (begin + load * kThreads < vectors) loaded[load] = __ldg(body + begin + load * kThreads);
    }
#pragma unroll
    for (uint32_t load = 0; load < kLoads; ++load) {
      if (begin + load * kThreads >= vectors) break;
      const int32_t candidate = orderKey(Lanes<T>(loaded[load]).largest());
      if (candidate > order) {
        order = candidate;
        data = loaded[load];
        number = begin + load * kThreads;
      }
    }
  }
  if (order > best.order) {
    const Lanes<T> lanes(data);
#pragma unroll
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      best.offer(widen(lanes.values[lane]), slice.begin + head + number * kLanes + lane);
    }
  }
  const uint32_t tail = slice.begin + head + vectors * kLanes + threadIdx.x;
  if (tail < slice.end) best.offer(widen(logits[tail]), tail);
  return best;
}

template <class T, int kThreads>
__device__ Best scanStrided(const T* logits, int64_t columnStride, Slice slice) {
  constexpr uint32_t kLoads = 8;
  Best best;
  for (uint32_t begin = slice.begin + threadIdx.x; begin < slice.end; begin += kLoads * kThreads) {
    T loaded[kLoads];
#pragma unroll
    for (uint32_t load = 0; load < kLoads; ++load) {
      const uint32_t column = begin + load * kThreads;
      if (column < slice.end) loaded[load] = logits[column * columnStride];
    }
#pragma unroll
    for (uint32_t load = 0; load < kLoads; ++load) {
      const uint32_t column = begin + load * kThreads;
      if (column < slice.end) best.offer(widen(loaded[load]), column);
    }
  }
  return best;
}

// Grid (slices, rows). With `tokens`, there is one slice, the whole row, and its id goes there; else candidates.
template <class T, int kThreads>
__global__ void __launch_bounds__(kThreads) scanRowsKernel(LocalArgmaxArgs args, int32_t* tokens) {
  triggerDependentLaunch();
  __shared__ Key warpBests[kThreads / 32];
  const Slice slice(args.vocabSize, tokens == nullptr ? kArgmaxSlices : 1);
  for (int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    const T* logits = static_cast<const T*>(args.logits) + row * args.rowStride;
    const Best scanned = args.columnStride == 1 ? scanContiguous<T, kThreads>(logits, slice)
                                                : scanStrided<T, kThreads>(logits, args.columnStride, slice);
    Key best = warpBest(scanned.key());
    if (threadIdx.x % 32 == 0) warpBests[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x < 32) {
      best = warpBest(threadIdx.x < kThreads / 32 ? warpBests[threadIdx.x] : kWorstKey);
      if (threadIdx.x == 0 && tokens == nullptr) writeCandidate(args, row, best);
      if (threadIdx.x == 0 && tokens != nullptr) {
        tokens[row] = static_cast<int32_t>(keyId(best) + (best == kWorstKey ? 0 : args.vocabStart));
      }
    }
    __syncthreads();
  }
}

// Neighbouring rows lie side by side. Grid (kArgmaxSlices, groups of rows): a thread takes kLanes neighbouring rows of
// every so manyth column, `rowThreads` threads a group of rows: a power of two, at most 16. kLanes is 1, or what 16
// bytes hold where every column starts at a 16-byte boundary and rows are a multiple of it.
template <class T, int kLanes, int kThreads>
__global__ void __launch_bounds__(kThreads) scanColumnsKernel(LocalArgmaxArgs args, int rowThreads) {
  constexpr uint32_t kLoads = 8;
  constexpr int kMostRows = 16;
  triggerDependentLaunch();
  __shared__ Key warpBests[kThreads / 32][kMostRows];
  const Slice slice(args.vocabSize, kArgmaxSlices);
  const int groupRows = rowThreads * kLanes, rowThread = threadIdx.x % rowThreads;
  const uint32_t columnThreads = kThreads / rowThreads;
  for (int64_t firstRow = static_cast<int64_t>(blockIdx.y) * groupRows; firstRow < args.rows;
       firstRow += static_cast<int64_t>(gridDim.y) * groupRows) {
    const int64_t row = firstRow + rowThread * kLanes;
    const T* logits = static_cast<const T*>(args.logits) + row;
    Best bests[kLanes];
    const uint32_t end = row < args.rows ? slice.end : slice.begin;
    for (uint32_t begin = slice.begin + threadIdx.x / rowThreads; begin < end; begin += kLoads * columnThreads) {
      Pack<T, kLanes> loaded[kLoads];
#pragma unroll
      for (uint32_t load = 0; load < kLoads; ++load) {
        const uint32_t column = begin + load * columnThreads;
        if (column < end) loaded[load] = *reinterpret_cast<const Pack<T, kLanes>*>(logits + column * args.columnStride);
      }
#pragma unroll
      for (uint32_t load = 0; load < kLoads; ++load) {
        const uint32_t column = begin + load * columnThreads;
        if (column >= end) break;
#pragma unroll
        for (int lane = 0; lane < kLanes; ++lane) bests[lane].offer(widen(loaded[load].values[lane]), column);
      }
    }
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      Key best = bests[lane].key();
      for (int offset = 16; offset >= rowThreads; offset /= 2) {
        best = max(best, __shfl_xor_sync(0xffffffffu, best, offset));
      }
      if (threadIdx.x % 32 < rowThreads) warpBests[threadIdx.x / 32][rowThread * kLanes + lane] = best;
    }
    __syncthreads();
    if (threadIdx.x < groupRows && firstRow + threadIdx.x < args.rows) {
      Key best = kWorstKey;
      for (int warp = 0; warp < kThreads / 32; ++warp) best = max(best, warpBests[warp][threadIdx.x]);
      writeCandidate(args, firstRow + threadIdx.x, best);
    }
    __syncthreads();
  }
}

// A warp a row.
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    pickKernel(const int2* candidates, int64_t ranks, int64_t rows, int32_t* tokens, GatherStep gather) {
  waitForPreviousKernel();
  const bool gathered = isGathered(gather);
  const int lane = threadIdx.x % 32;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) / 32;
  if (row >= rows) return;
  Key best = kWorstKey;
  for (int64_t i = lane; i < ranks * kArgmaxSlices; i += 32) {
    const int64_t rank = i / kArgmaxSlices, slice = i % kArgmaxSlices;
    const int2 pair = candidates[(rank * rows + row) * kArgmaxSlices + slice];
    best = max(best, makeKey(pair.x, static_cast<uint32_t>(pair.y)));
  }
  best = warpBest(best);
  if (lane == 0) tokens[row] = gathered ? static_cast<int32_t>(keyId(best)) : -1;
}

}  // namespace lm_head
