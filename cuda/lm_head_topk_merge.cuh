// The best k of all blocks' lists, sorted.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/log_sum_exp.cuh"
#include "common/top_k_lists.cuh"

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
  const LogSum* logSums;  // [rows, blocks], or null
  float* logSumExp;       // [rows]
};

// A warp adds up the sums of all blocks.
__device__ inline void finishLogSumExp(const MergeParams& params, int64_t row, Key best) {
  if (params.logSums == nullptr || threadIdx.x >= 32) return;
  LogSum sum = LogSum::empty();
  for (int i = threadIdx.x; i < params.pool.blocks; i += 32) sum = sum + params.logSums[row * params.pool.blocks + i];
  for (int offset = 16; offset > 0; offset /= 2) {
    sum = sum + LogSum{__shfl_xor_sync(0xffffffffu, sum.max, offset), __shfl_xor_sync(0xffffffffu, sum.sum, offset)};
  }
  // Not less than the best score, where rounding would have it so. NaN is the best where there is any.
  if (threadIdx.x == 0) params.logSumExp[row] = fmaxf(sum.value(), keyValue(best));
}

// A block a row. Shared memory: `sortSize` keys, the power of two at or above k. Leaves the pool empty for the next
// sweep.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) mergeKernel(MergeParams params, int sortSize) {
  extern __shared__ Key best[];
  constexpr int kFew = 256;
  __shared__ SelectScratch scratch;
  __shared__ Key few[kFew], first;
  allowNextKernel();
  waitForPreviousKernel();
  const int64_t row = blockIdx.x;
  const Key* keys = params.pool.keys + row * params.pool.capacity;
  const auto block = cg::this_thread_block();
  const int k = params.k, count = params.pool.counts[row];
  const auto store = [&](int place, Key key) {
    const int64_t out = row * params.kTotal + params.kBefore + place;
    params.values[out] = keyValue(key);
    params.indices[out] = static_cast<int32_t>(keyId(key) + params.vocabStart);
    if (place == 0) first = key;
    if (place == k - 1) params.bounds[row] = key;
  };
  if (count <= kFew) {
    // Few candidates: the place of each is how many are better.
    const Key own = threadIdx.x < count ? keys[threadIdx.x] : kWorstKey;
    if (threadIdx.x < kFew) few[threadIdx.x] = own;
    block.sync();
    clearRow(params.pool, row);  // not before all threads have read the count
    if (threadIdx.x < count) {
      int place = 0;
      for (int i = 0; i < count; ++i) place += few[i] > own;
      if (place < k) store(place, own);
    }
    block.sync();
    finishLogSumExp(params, row, first);
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

  // Bitonic sort, best first.
  for (int size = 2; size <= sortSize; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      for (int pair = threadIdx.x; pair < sortSize / 2; pair += kThreads) {
        const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
        const bool descending = (i & size) == 0;
        const Key a = best[i], b = best[j];
        if ((a < b) == descending) {
          best[i] = b;
          best[j] = a;
        }
      }
      block.sync();
    }
  }
  for (int i = threadIdx.x; i < k; i += kThreads) store(i, best[i]);
  block.sync();
  finishLogSumExp(params, row, first);
}

}  // namespace lm_head
