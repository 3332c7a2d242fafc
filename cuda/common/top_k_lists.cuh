// A block's candidates for the top k of each of its rows. Scores are filtered against a threshold and survivors are
// appended to an unsorted list. Thresholds rise in two ways, both exact: a list that grows too long is cut back to its
// k best; and blocks tell each other how good their own m-th best is, with m * blocks >= k, so that the worst of these
// is a score that at least k ids reach. Whatever the blocks see of each other, and when, the final top k is the same.
#pragma once

#include "top_k_select.cuh"

namespace lm_head {

// What the blocks that scan a row share of it, all in global memory.
struct RowPool {
  Key* published;  // [rows, blocks]: m-th best so far of each block
  Key* keys;       // [rows, capacity]: candidates of all blocks
  int* counts;     // [rows]: how many; more than capacity when candidates were lost and the row must be scanned again
  int blocks;
  int publishedRank;  // m
  int capacity;
};

// Empties a row's pool; all threads of a block call it.
__device__ inline void clearRow(const RowPool& pool, int64_t row) {
  for (int i = threadIdx.x; i < pool.blocks; i += blockDim.x) pool.published[row * pool.blocks + i] = kWorstKey;
  if (threadIdx.x == 0) pool.counts[row] = 0;
}

// Set in a row's count when its candidates are incomplete.
constexpr int kLostCandidates = 1 << 30;

// kThreads: those of the block that work with the lists.
template <int kThreads>
struct TopKLists {
  Key* keys;  // the list of row r starts at r * rowStride; shared or global memory
  int64_t rowStride;
  int capacity;
  int k;
  int rows;
  int64_t rowBegin;        // row 0 of the block in `pool` and `bounds`
  int* counts;             // [rows], shared
  Key* thresholds;         // [rows], shared: keys up to here cannot be among the k best
  float* thresholdValues;  // [rows], shared: their scores, for a quick look
  const Key* bounds;       // global, or null: only keys below are wanted (a sweep after the first)
  RowPool pool;

  // Starts the lists of the rows that are `served(row)`; the others take no key and hand nothing over.
  template <class Served>
  __device__ void reset(Served served) {
    for (int row = threadIdx.x; row < rows; row += kThreads) {
      counts[row] = 0;
      setThreshold(row, served(row) ? kWorstKey : kAboveAllKeys);
    }
  }

  __device__ void offer(int row, float score, uint32_t id) {
    if (score < thresholdValues[row])
      return;  // nearly always; not for NaN, nor before there is a threshold, which is NaN then
    const Key key = makeKey(score, id);
    if (key <= thresholds[row]) return;
    if (bounds != nullptr && key >= bounds[rowBegin + row]) return;
    const int position = atomicAdd(&counts[row], 1);
    if (position < capacity) keys[row * rowStride + position] = key;
  }

  // work(row, warp) for every row, a warp a row. All kThreads call it, between barriers.
  template <class Work>
  __device__ void forEachRow(Work work) {
    const Warp warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) work(row, warp);
  }

  // Makes room for `room` more keys in every list, and raises thresholds by what other blocks have published where
  // `exchange` is set.
  __device__ void tidy(int room, bool exchange, SelectScratch* scratchPerWarp) {
    forEachRow([&](int row, const Warp& warp) {
      if (!exchange && counts[row] <= capacity - room) return;
      SelectScratch& scratch = scratchPerWarp[threadIdx.x / 32];
      Key* list = keys + row * rowStride;
      int count = clampCount(row, warp);
      const Key bound = pool.blocks > 1 ? exchangeBound(row, list, count, warp, scratch) : kWorstKey;
      if (bound > thresholds[row]) {
        count = dropBelow(list, count, bound, warp);
        warp.sync();
        if (warp.thread_rank() == 0) setThreshold(row, bound - 1);
      }
      if (count > capacity - room && count > k) {
        const Key kth = keepTopK(warp, list, count, k, scratch);
        count = k;
        if (warp.thread_rank() == 0) setThreshold(row, kth - 1);
      }
      warp.sync();
      if (warp.thread_rank() == 0) counts[row] = count;
    });
  }

  // Hands the block's candidates to the pool. `alone`: no other block scans these rows.
  __device__ void handOver(bool alone) {
    forEachRow([&](int row, const Warp& warp) {
      if (thresholds[row] == kAboveAllKeys) return;
      const Key* list = keys + row * rowStride;
      const int count = clampCount(row, warp);
      int begin = 0;
      if (warp.thread_rank() == 0) {
        int* total = pool.counts + rowBegin + row;
        if (alone) {
          *total = count;
        } else {
          begin = atomicAdd(total, count);
        }
      }
      begin = warp.shfl(begin, 0);
      Key* out = pool.keys + (rowBegin + row) * pool.capacity;
      for (int i = warp.thread_rank(); i < count && begin + i < pool.capacity; i += 32) out[begin + i] = list[i];
    });
  }

 private:
  __device__ void setThreshold(int row, Key key) {
    thresholds[row] = key;
    thresholdValues[row] = keyValue(key);
  }

  // Keys in the list; notes the loss where more were offered than it holds.
  __device__ int clampCount(int row, const Warp& warp) {
    const int count = counts[row];
    if (count <= capacity) return count;
    warp.sync();
    if (warp.thread_rank() == 0) {
      counts[row] = capacity;
      atomicOr(pool.counts + rowBegin + row, kLostCandidates);
    }
    return capacity;
  }

  // Publishes this block's m-th best, and returns the worst that any block has published: at least k ids are as good.
  __device__ Key exchangeBound(int row, const Key* list, int count, const Warp& warp, SelectScratch& scratch) {
    const int rank = pool.publishedRank;
    Key* published = pool.published + (rowBegin + row) * pool.blocks;
    if (count >= rank) {
      Key own = kWorstKey;
      if (rank == 1) {
        for (int i = warp.thread_rank(); i < count; i += 32) own = list[i] > own ? list[i] : own;
        for (int offset = 16; offset > 0; offset /= 2) {
          const Key other = warp.shfl_xor(own, offset);
          own = other > own ? other : own;
        }
      } else {
        own = kthLargest(
            warp, [list](int i) { return list[i]; }, count, rank, scratch);
      }
      if (warp.thread_rank() == 0) __stcg(published + blockIdx.x, own);
    }
    warp.sync();
    Key bound = kAboveAllKeys;
    for (int i = warp.thread_rank(); i < pool.blocks; i += 32) {
      const Key other = __ldcg(published + i);
      bound = other < bound ? other : bound;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
      const Key other = warp.shfl_xor(bound, offset);
      bound = other < bound ? other : bound;
    }
    return bound;
  }

  // Keeps the keys that reach `bound`, in place; returns how many. Four loads at a time, for the list may be in global
  // memory.
  static __device__ int dropBelow(Key* list, int count, Key bound, const Warp& warp) {
    constexpr int kLoads = 4;
    int kept = 0;
    for (int base = 0; base < count; base += kLoads * 32) {
      Key keys[kLoads];
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const int i = base + load * 32 + warp.thread_rank();
        keys[load] = i < count ? list[i] : kWorstKey;
      }
      warp.sync();  // a slot is overwritten only after it was read
#pragma unroll
      for (int load = 0; load < kLoads; ++load) {
        const bool keep = keys[load] != kWorstKey && keys[load] >= bound;
        const unsigned lanes = warp.ballot(keep);
        if (keep) list[kept + __popc(lanes & ((1u << warp.thread_rank()) - 1))] = keys[load];
        kept += __popc(lanes);
      }
    }
    warp.sync();
    return kept;
  }
};

}  // namespace lm_head
