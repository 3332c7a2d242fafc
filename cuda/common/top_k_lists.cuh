// A block's running top k of each of its rows: scores are filtered against a threshold, survivors are appended to an
// unsorted list, and a list that may overflow is cut back to its k best, which raises the threshold.
#pragma once

#include "top_k_select.cuh"

namespace lm_head {

// kThreads: those of the block that work with the lists.
template <int kThreads>
struct TopKLists {
  Key* keys;          // the list of row r starts at r * rowStride; shared or global memory
  int64_t rowStride;
  int k;
  int rows;
  int* counts;        // [rows], shared
  Key* thresholds;    // [rows], shared: keys up to here cannot be among the k best
  const Key* bounds;  // [rows], global, or null: only keys below are wanted (a sweep after the first)

  __device__ void reset() {
    for (int row = threadIdx.x; row < rows; row += kThreads) {
      counts[row] = 0;
      thresholds[row] = kWorstKey;
    }
  }

  __device__ void offer(int row, float score, uint32_t id) {
    const Key key = makeKey(score, id);
    if (key <= thresholds[row]) return;
    if (bounds != nullptr && key >= bounds[row]) return;
    keys[row * rowStride + atomicAdd(&counts[row], 1)] = key;
  }

  // Cuts every list longer than `limit` back to k, a warp a row. All kThreads call it, between barriers.
  __device__ void cutBack(int limit, SelectScratch* scratchPerWarp) {
    const Warp warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int warpIndex = threadIdx.x / 32;
    for (int row = warpIndex; row < rows; row += kThreads / 32) {
      const int count = counts[row];
      if (count <= limit) continue;
      const Key bound = keepTopK(warp, keys + row * rowStride, count, k, scratchPerWarp[warpIndex]);
      if (warp.thread_rank() == 0 && count > k) {
        counts[row] = k;
        // Ids of a block ascend, so a later key never equals one that was cut; bound - 1 keeps the bound's own key.
        thresholds[row] = bound - 1;
      }
    }
  }
};

}  // namespace lm_head
