// The best k of all blocks' lists, sorted.
#pragma once

#include "../common/dependent_launch.cuh"
#include "reductions/log_sum_exp.cuh"
#include "reductions/top_k.cuh"

namespace lm_head {

struct MergeParams {
  RowPool pool;
  int k;            // results of this sweep, at most kMaxKPerSweep
  int64_t kBefore;  // results of the sweeps before
  int64_t kTotal;
  int64_t vocabStart;
  float* values;          // [rows, kTotal]
  int32_t* indices;       // [rows, kTotal]
  Key* bounds;            // [rows]: the last key taken; what the next sweep stays below
  const LogSum* logSums;  // [rows, logSumsOfRow], or null
  int logSumsOfRow;
  float* logSumExp;  // [rows]
};

// The last warp: log of the sum of all blocks' sums, while the others look for the best keys.
template <int kThreads>
__device__ inline float logOfSums(const MergeParams& params, int64_t row) {
  if (params.logSums == nullptr || threadIdx.x < kThreads - 32) return 0.0f;
  constexpr int kLoads = 16;  // many at a time: what follows waits for memory
  const LogSum* sums = params.logSums + row * params.logSumsOfRow;
  LogSum total = LogSum::empty();
  for (int begin = threadIdx.x % 32; begin < params.logSumsOfRow; begin += kLoads * 32) {
    LogSum held[kLoads], sum = LogSum::empty();
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int i = begin + load * 32;
      held[load] = i < params.logSumsOfRow ? sums[i] : LogSum::empty();
      sum.max = fmaxf(sum.max, held[load].max);
    }
#pragma unroll
    for (const LogSum& other : held) sum.sum += other.sum * expOfDifference(other.max, sum.max);
    total = total + sum;
  }
  for (int offset = 16; offset > 0; offset /= 2) total = total.overLanes(offset);
  return total.value();
}

// Bitonic sort of `size` keys in shared memory, a power of two of at least 32, by a block. Steps within a warp need no
// barrier.
template <int kThreads>
__device__ inline void sortBestFirst(const cg::thread_block& block, Key* keys, int size) {
  const auto sortWithinWarps = [&](int firstRun, int lastRun) {
    for (int i = threadIdx.x; i < size; i += kThreads) {
      Key key = keys[i];
      for (int run = firstRun; run <= lastRun; run *= 2) {
        for (int stride = min(run / 2, 16); stride > 0; stride /= 2) {
          const Key other = __shfl_xor_sync(0xffffffffu, key, stride);
          const bool wantsLarger = ((i & run) == 0) == ((i & stride) == 0);
          if ((other > key) == wantsLarger) key = other;
        }
      }
      keys[i] = key;
    }
    block.sync();
  };
  sortWithinWarps(2, 32);
  for (int run = 64; run <= size; run *= 2) {
    for (int stride = run / 2; stride >= 32; stride /= 2) {
      for (int pair = threadIdx.x; pair < size / 2; pair += kThreads) {
        const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
        const bool descending = (i & run) == 0;
        const Key a = keys[i], b = keys[j];
        if ((a < b) == descending) {
          keys[i] = b;
          keys[j] = a;
        }
      }
      block.sync();
    }
    sortWithinWarps(run, run);
  }
}

// A block a row. Shared memory: `sortSize` keys, the power of two at or above k, at least 32. Leaves the pool empty for
// the next sweep.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) mergeKernel(MergeParams params, int sortSize) {
  extern __shared__ Key best[];
  constexpr int kFew = kThreads / 4;
  __shared__ SelectScratch scratch;
  __shared__ Key few[kFew], first;
  allowNextKernel();
  waitForPreviousKernel();
  const int64_t row = blockIdx.x;
  const Key* keys = params.pool.keys + row * params.pool.capacity;
  const auto block = cg::this_thread_block();
  const int k = params.k, count = params.pool.counts[row];
  const float logSum = logOfSums<kThreads>(params, row);
  const auto store = [&](int place, Key key) {
    const int64_t out = row * params.kTotal + params.kBefore + place;
    params.values[out] = keyValue(key);
    params.indices[out] = static_cast<int32_t>(keyId(key) + params.vocabStart);
    if (place == 0) first = key;
    if (place == k - 1) params.bounds[row] = key;
  };
  // Not less than the best score, where rounding would have it so. NaN is the best where there is any.
  const auto storeLogSum = [&] {
    block.sync();
    if (params.logSums != nullptr && threadIdx.x == kThreads - 1)
      params.logSumExp[row] = fmaxf(logSum, keyValue(first));
  };
  if (count <= kFew) {
    // Few candidates: the place of each is how many are better.
    if (threadIdx.x < count) few[threadIdx.x] = keys[threadIdx.x];
    block.sync();
    clearRow(params.pool, row);  // not before all threads have read the count
    // Four threads a candidate.
    const int candidate = threadIdx.x / 4;
    const Key key = candidate < count ? few[candidate] : kWorstKey;
    int place = 0;
#pragma unroll 8
    for (int i = threadIdx.x % 4; i < count; i += 4) place += few[i] > key;
    place += __shfl_xor_sync(0xffffffffu, place, 1);
    place += __shfl_xor_sync(0xffffffffu, place, 2);
    if (threadIdx.x % 4 == 0 && candidate < count && place < k) store(place, key);
    storeLogSum();
    return;
  }
  const Key bound = count > k ? kthLargest(
                                    block, [keys](int i) { return keys[i]; }, count, k, scratch)
                              : kWorstKey;

  if (threadIdx.x == 0) scratch.kept = 0;
  for (int i = k + threadIdx.x; i < sortSize; i += kThreads) best[i] = kWorstKey;
  block.sync();
  for (int i = threadIdx.x; i < count; i += kThreads) {
    if (keys[i] >= bound) best[atomicAdd(&scratch.kept, 1)] = keys[i];
  }
  clearRow(params.pool, row);
  block.sync();

  sortBestFirst<kThreads>(block, best, sortSize);
  for (int i = threadIdx.x; i < k; i += kThreads) store(i, best[i]);
  storeLogSum();
}

}  // namespace lm_head
