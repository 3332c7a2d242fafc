// A block's candidates for the top k of each of its rows. Scores are filtered against a threshold and survivors are
// appended to an unsorted list. Thresholds rise in two ways, both exact: a list that grows too long is cut back to its
// k best; and blocks tell each other how good their own m-th best is, with m * blocks >= k: the worst of these, or for
// m = 1 the k-th best of them, is a score that at least k ids reach. Whatever the blocks see of each other, and when,
// the final top k is the same.
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

// More blocks than this do not share a row: a warp keeps what all of them have published in registers.
constexpr int kMaxPoolBlocks = 256;

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
  Key* bests;              // [rows], shared: the best key so far; where a block publishes just that
  const Key* bounds;       // global, or null: only keys below are wanted (a sweep after the first)
  RowPool pool;

  // Starts the lists of the rows that are `served(row)`; the others take no key and hand nothing over.
  template <class Served>
  __device__ void reset(Served served) {
    for (int row = threadIdx.x; row < rows; row += kThreads) {
      counts[row] = 0;
      bests[row] = kWorstKey;
      setThreshold(row, served(row) ? kWorstKey : kAboveAllKeys);
    }
  }

  // No score below can be wanted; NaN before there is a threshold.
  __device__ float leastScore(int row) const { return thresholdValues[row]; }

  __device__ void offer(int row, float score, uint32_t id) {
    if (score < leastScore(row)) return;  // nearly always; not for NaN
    const Key key = makeKey(score, id);
    if (key <= thresholds[row]) return;
    if (bounds != nullptr && key >= bounds[rowBegin + row]) return;
    const int position = atomicAdd(&counts[row], 1);
    if (position < capacity) keys[row * rowStride + position] = key;
    if (publishesBest() && key > bests[row]) atomicMax(reinterpret_cast<unsigned long long*>(bests + row), key);
  }

  // Whether a block publishes its very best, so that exchanging needs no look at the list.
  __device__ bool publishesBest() const { return pool.publishedRank == 1; }

  // Whether a list of this block has less room left than `room` keys. Each warp looks at all rows: the one that was the
  // last to append to a list sees all of it.
  __device__ bool anyFull(int room) const {
    bool full = false;
    for (int row = threadIdx.x % 32; row < rows; row += 32) full |= counts[row] > capacity - room;
    return full;
  }

  // Where blocks publish their best: publishes this block's and, where `raise` is set, raises thresholds by the
  // others'. Needs no barrier; a threshold that others see late lets more keys through, nothing else.
  __device__ void exchangeBests(bool raise) {
    if (pool.blocks == 1) return;
    forEachRow([&](int row, const Warp& warp) {
      if (thresholds[row] == kAboveAllKeys) return;
      Key* published = pool.published + (rowBegin + row) * pool.blocks;
      if (warp.thread_rank() == 0) __stcg(published + blockIdx.x, bests[row]);
      if (!raise) return;
      const Key bound = kthPublished(published, warp);
      if (warp.thread_rank() == 0 && bound > thresholds[row]) setThreshold(row, bound - 1);
    });
  }

  // work(row, warp) for every row, a warp a row. All kThreads call it, between barriers.
  template <class Work>
  __device__ void forEachRow(Work work) {
    const Warp warp = cg::tiled_partition<32>(cg::this_thread_block());
    for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) work(row, warp);
  }

  // Makes room for `room` more keys in every list, and, where `exchange` is set, raises thresholds by what other blocks
  // have published (those that publish their best have done so before) and drops what lies below.
  __device__ void tidy(int room, bool exchange, SelectScratch* scratchPerWarp) {
    forEachRow([&](int row, const Warp& warp) {
      if (!exchange && counts[row] <= capacity - room) return;
      if (thresholds[row] == kAboveAllKeys) return;
      SelectScratch& scratch = scratchPerWarp[threadIdx.x / 32];
      Key* list = keys + row * rowStride;
      int count = clampCount(row, warp);
      if (pool.blocks > 1 && !publishesBest()) {
        const Key bound = exchangeBound(row, list, count, warp, scratch);
        if (warp.thread_rank() == 0 && bound > thresholds[row]) setThreshold(row, bound - 1);
      }
      warp.sync();
      if (thresholds[row] != kWorstKey) count = dropBelow(list, count, thresholds[row] + 1, warp);
      if (count > capacity - room && count > k) {
        const Key kth = keepTopK(warp, list, count, k, scratch);
        count = k;
        if (warp.thread_rank() == 0) setThreshold(row, kth - 1);
      }
      warp.sync();
      if (warp.thread_rank() == 0) counts[row] = count;
      warp.sync();
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

  // A bound that at least k published keys reach, near the k-th best of them: the upper half of its score.
  __device__ Key kthPublished(const Key* published, const Warp& warp) const {
    const int lane = warp.thread_rank();
    uint32_t orders[kMaxPoolBlocks / 32];
#pragma unroll
    for (int i = 0; i < kMaxPoolBlocks / 32; ++i) {
      orders[i] = i * 32 + lane < pool.blocks ? static_cast<uint32_t>(__ldcg(published + i * 32 + lane) >> 32) : 0;
    }
    uint32_t found = 0;
    for (uint32_t bit = 1u << 31; bit >= 1u << 16; bit >>= 1) {
      int count = 0;
#pragma unroll
      for (int i = 0; i < kMaxPoolBlocks / 32; ++i) {
        if (i * 32 < pool.blocks) count += orders[i] >= (found | bit);
      }
      if (__reduce_add_sync(0xffffffffu, count) >= k) found |= bit;
    }
    return Key{found} << 32;
  }

  // Publishes this block's m-th best, and returns the worst that any block has published: at least k ids are as good.
  __device__ Key exchangeBound(int row, const Key* list, int count, const Warp& warp, SelectScratch& scratch) {
    const int rank = pool.publishedRank;
    Key* published = pool.published + (rowBegin + row) * pool.blocks;
    if (count >= rank) {
      const Key own = kthLargest(
          warp, [list](int i) { return list[i]; }, count, rank, scratch);
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
