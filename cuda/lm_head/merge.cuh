// The best k of all blocks' candidates, sorted; and the sum of all terms of logSumExp.
#pragma once

#include "../common/dependent_launch.cuh"
#include "../common/sort.cuh"
#include "reductions/log_sum_exp.cuh"
#include "reductions/row_pool.cuh"

namespace lm_head {

struct MergeParams {
  int64_t rows;
  RowPool pool;
  int k;            // results of this sweep, at most kMaxKPerSweep
  int64_t kBefore;  // results of the sweeps before
  int64_t kTotal;
  int64_t vocabStart;
  bool hidesMasked;           // the id of a value of -inf is -1
  float* values;              // [rows, kTotal]
  int32_t* indices;           // [rows, kTotal]
  Key* bounds;                // [rows]: the last key taken, what the next sweep stays below; or null
  LogSumExpParams logSumExp;  // of the first sweep
  float* logSumExps;          // [rows], or null
  int32_t* logSumStates;      // [rows, LogSum::kWords], or null
  bool mayCut;       // blocks may have dropped keys: the first merge of two asks for another sweep of such rows
  bool afterRescan;  // the second: only of those rows
};

// A block: what the sums of all blocks of a row add up to. Its first warps have one of them each thread.
__device__ inline void mergeLogSumsOfBlocks(const MergeParams& params, int64_t row) {
  constexpr int kWarps = kMaxPoolBlocks / 32;
  __shared__ float largest[kWarps];
  __shared__ unsigned long long limbs[LogSum::kLimbs];
  if (threadIdx.x < LogSum::kLimbs) limbs[threadIdx.x] = 0;
  const int warp = threadIdx.x / 32;
  LogSum own = LogSum::empty();
  if (threadIdx.x < params.pool.blocks) own = params.logSumExp.sums[row * params.pool.blocks + threadIdx.x];
  if (warp < kWarps) {
    const float most = largestOfWarp(own.max);
    if (threadIdx.x % 32 == 0) largest[warp] = most;
  }
  __syncthreads();
  LogSum total = LogSum::empty();
  for (const float most : largest) total.max = LogSum::larger(total.max, most);
  if (warp < kWarps) {
    total.add(own);
    total = sumOfWarp(total);
    if (threadIdx.x % 32 == 0) {
      for (int limb = 0; limb < LogSum::kLimbs; ++limb)
        atomicAdd(limbs + limb, static_cast<unsigned long long>(total.limbs[limb]));
    }
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int limb = 0; limb < LogSum::kLimbs; ++limb) total.limbs[limb] = static_cast<int64_t>(limbs[limb]);
  if (params.logSumExps != nullptr) params.logSumExps[row] = total.value();
  if (params.logSumStates != nullptr) total.store(params.logSumStates + row * LogSum::kWords);
}

// A block a row; and of the first sweep, where logSumExp is wanted, another one. Shared memory: `sortSize` keys, the
// power of two at or above k, at least 32. Leaves the pool empty for the next sweep.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) mergeKernel(const __grid_constant__ MergeParams params, int sortSize) {
  extern __shared__ Key best[];
  constexpr int kFew = kThreads / 4;
  __shared__ SelectScratch scratch;
  __shared__ Key few[kFew], last;
  triggerDependentLaunch();
  waitForPreviousKernel();
  if (blockIdx.x >= params.rows) return mergeLogSumsOfBlocks(params, blockIdx.x - params.rows);
  const int64_t row = blockIdx.x;
  if (params.afterRescan && params.pool.rescanBounds[row] == kWorstKey) {
    if (threadIdx.x == 0) params.pool.taken[row] = 0;  // by the rescan of another row
    return;
  }
  const Key* keys = params.pool.keys + row * params.pool.capacity;
  const auto block = cg::this_thread_block();
  const int k = params.k, count = params.pool.counts[row];
  const Key cut = params.mayCut && !params.afterRescan ? params.pool.cuts[row] : kWorstKey;
  const auto store = [&](int place, Key key) {
    const int64_t out = row * params.kTotal + params.kBefore + place;
    const float value = keyValue(key);
    params.values[out] = value;
    params.indices[out] =
        params.hidesMasked && value == -INFINITY ? -1 : static_cast<int32_t>(keyId(key) + params.vocabStart);
    if (place != k - 1) return;
    last = key;
    if (params.bounds != nullptr) params.bounds[row] = key;
  };
  if (count < k) {
    // Blocks have cut off so much that there are not even k: all of the row is wanted once more.
    block.sync();
    clearRow(params.pool, row);
    if (threadIdx.x == 0) params.pool.rescanBounds[row] = kWorstKey + 1;
    return;
  }
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
  } else {
    const auto keyAt = [keys](int i) { return keys[i]; };
    const Key bound = count > k ? boundOfLargest(block, keyAt, count, k, scratch) : kWorstKey;
    if (threadIdx.x == 0) scratch.kept = 0;
    for (int i = k + threadIdx.x; i < sortSize; i += kThreads) best[i] = kWorstKey;
    block.sync();
    forEachKey(block, keyAt, count, [&](Key key) {
      if (key >= bound) best[atomicAdd(&scratch.kept, 1)] = key;
    });
    clearRow(params.pool, row);
    block.sync();
    sortBestFirst<kThreads>(block, best, sortSize);
    for (int i = threadIdx.x; i < k; i += kThreads) store(i, best[i]);
  }
  block.sync();
  // May one of the k best be lost? Then all keys from the last of these on are wanted once more.
  if (threadIdx.x == 0 && cut > last) params.pool.rescanBounds[row] = last;
}

}  // namespace lm_head
