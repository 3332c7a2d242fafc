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

// A block a row. Shared memory: `sortSize` keys, the power of two at or above k. Leaves the pool empty for the next
// sweep.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) mergeKernel(MergeParams params, int sortSize) {
  extern __shared__ Key best[];
  __shared__ SelectScratch scratch;
  allowNextKernel();
  waitForPreviousKernel();
  const int64_t row = blockIdx.x;
  const Key* keys = params.pool.keys + row * params.pool.capacity;
  const auto block = cg::this_thread_block();
  const int k = params.k, count = params.pool.counts[row];
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
  for (int i = threadIdx.x; i < k; i += kThreads) {
    const int64_t out = row * params.kTotal + params.kBefore + i;
    params.values[out] = keyValue(best[i]);
    params.indices[out] = static_cast<int32_t>(keyId(best[i]) + params.vocabStart);
  }
  if (threadIdx.x == 0) params.bounds[row] = best[k - 1];
  if (params.logSums != nullptr && threadIdx.x < 32) {
    LogSum sum = LogSum::empty();
    for (int i = threadIdx.x; i < params.pool.blocks; i += 32) sum = sum + params.logSums[row * params.pool.blocks + i];
    for (int offset = 16; offset > 0; offset /= 2) {
      sum = sum + LogSum{__shfl_xor_sync(0xffffffffu, sum.max, offset), __shfl_xor_sync(0xffffffffu, sum.sum, offset)};
    }
    // Not less than the best score, where rounding would have it so. NaN is the best where there is any.
    if (threadIdx.x == 0) params.logSumExp[row] = fmaxf(sum.value(), keyValue(best[0]));
  }
}

}  // namespace lm_head
