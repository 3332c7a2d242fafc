// A block's candidates for the top k of each of its rows. Scores are filtered against a threshold and survivors are
// appended to an unsorted list. Thresholds rise in two ways, both exact: a list that grows too long is cut back to its
// k best; and blocks tell each other a score that at least m of their ids reach: the j-th best of these is a score that
// at least k ids reach, for j * m >= k. Whatever the blocks see of each other, and when, the final top k is the same.
#pragma once

#include "../../common/select.cuh"

namespace lm_head {

// What the blocks that scan a row share of it, all in global memory.
struct RowPool {
  // [rows, kMaxPoolBlocks]: a score that at least m of a block's ids so far reach; see publishedScore
  uint16_t* published;
  Key* keys;    // [rows, capacity]: candidates of all blocks
  int* counts;  // [rows]: how many; more than capacity when candidates were lost and the row must be scanned again
  int* taken;   // [rows]: of a row group's first row, shared tiles that blocks have taken
  int blocks;
  int publishedRank;  // m
  int capacity;
};

// More blocks than this do not share a row: a warp loads what all of them have published at once.
constexpr int kMaxPoolBlocks = 256;

// Empties a row's pool; all threads of a block call it.
__device__ inline void clearRow(const RowPool& pool, int64_t row) {
  constexpr int kWords = kMaxPoolBlocks / 2;
  auto* words = reinterpret_cast<uint32_t*>(pool.published + row * kMaxPoolBlocks);
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) words[i] = 0;
  if (threadIdx.x == 0) pool.counts[row] = pool.taken[row] = 0;
}

// The upper half of a key's score: what at least as many ids reach as the key.
__device__ inline uint32_t publishedScore(Key key) { return static_cast<uint32_t>(key >> 48); }

// What the blocks of a row have published, over a warp.
struct PublishedScores {
  static constexpr int kOfLane = kMaxPoolBlocks / 32;
  uint4 packed;

  // Takes its time.
  __device__ void load(const RowPool& pool, int64_t row) {
    packed = __ldcg(reinterpret_cast<const uint4*>(pool.published + row * kMaxPoolBlocks) + threadIdx.x % 32);
  }

  // The j-th best, as the worst key with that score.
  __device__ Key best(int j) const {
    const uint32_t pairs[] = {packed.x, packed.y, packed.z, packed.w};
    uint32_t scores[kOfLane];
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) scores[i] = i % 2 == 0 ? pairs[i / 2] & 0xffff : pairs[i / 2] >> 16;
    // The search begins where scores begin to differ. 0 stands for none.
    uint32_t largest = 0, smallest = 0xffff;
    int published = 0;
#pragma unroll
    for (const uint32_t score : scores) {
      largest = max(largest, score);
      if (score > 0) smallest = min(smallest, score);
      published += score > 0;
    }
    if (__reduce_add_sync(0xffffffffu, published) < j) return 0;
    largest = __reduce_max_sync(0xffffffffu, largest);
    const uint32_t differ = largest ^ __reduce_min_sync(0xffffffffu, smallest);
    const int unknown = 32 - __clz(static_cast<int>(differ));
    uint32_t found = largest >> unknown << unknown;
#pragma unroll 1
    for (uint32_t bit = 1u << unknown >> 1; bit > 0; bit >>= 1) {
      int count = 0;
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) count += scores[i] >= (found | bit);
      if (__reduce_add_sync(0xffffffffu, count) >= j) found |= bit;
    }
    return Key{found} << 48;
  }
};

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
  int64_t rowBegin;   // row 0 of the block in `pool` and `bounds`
  const Key* bounds;  // global, or null: only keys below are wanted (a sweep after the first)
  RowPool pool;
  // Shared memory: what the functions below find in it; one pointer, for registers are few where scores are made.
  unsigned char* shared;
  int rowsPerBlock;

  static __host__ __device__ size_t sharedBytes(int rowsPerBlock, int warps) {
    return rowsPerBlock * (kBestsAt + warps * sizeof(uint32_t)) + warps * sizeof(SelectScratch);
  }

  // Starts the lists of the rows that are `served(row)`; the others take no key and hand nothing over.
  template <class Served>
  __device__ void reset(Served served) {
    for (int row = threadIdx.x; row < rows; row += kThreads) {
      countOf(row) = 0;
      setThreshold(row, served(row) ? kWorstKey : kAboveAllKeys);
    }
    for (int i = threadIdx.x; i < rows * kWarps; i += kThreads) bestsOf(0)[i] = 0;
  }

  // No score below can be wanted; NaN before there is a threshold.
  __device__ float leastScore(int row) const { return thresholdScore(row); }

  __device__ void offer(int row, float score, uint32_t id) {
    if (score < leastScore(row)) return;  // nearly always; not for NaN
    const Key key = makeKey(score, id);
    if (key <= threshold(row)) return;
    if (bounds != nullptr && key >= bounds[rowBegin + row]) return;
    const int position = atomicAdd(&countOf(row), 1);
    if (position < capacity) keys[row * rowStride + position] = key;
    uint32_t* best = bestsOf(row) + threadIdx.x / 32;
    if (publishesBests() && scoreBits(key) > *best) atomicMax(best, scoreBits(key));
  }

  // Whether a block's bests are what it publishes, so that exchanging needs no look at lists: the m-th best of its
  // warps' bests is nearly its m-th best where m is small.
  __device__ bool publishesBests() const { return pool.publishedRank <= kWarps / 2; }

  // Whether a list of this block has less room left than `room` keys. Each warp looks at all rows: the one that was the
  // last to append to a list sees all of it.
  __device__ bool anyFull(int room) const {
    bool full = false;
    for (int row = threadIdx.x % 32; row < rows; row += 32) full |= countOf(row) > capacity - room;
    return full;
  }

  // A warp, where blocks publish bests: publishes this block's best of a row. Needs no barrier.
  __device__ void publishBest(int row) {
    const int lane = threadIdx.x % 32;
    uint32_t mine = lane < kWarps ? *static_cast<volatile uint32_t*>(bestsOf(row) + lane) : 0, best = 0;
    for (int i = 0; i < pool.publishedRank; ++i) {
      best = __reduce_max_sync(0xffffffffu, mine);
      if (lane == __ffs(__ballot_sync(0xffffffffu, mine == best)) - 1) mine = 0;
    }
    publish(row, Key{best} << 32);
  }

  // A warp: raises a row's threshold by what blocks have published. Needs no barrier; a threshold that others see late
  // lets more keys through, nothing else.
  __device__ void raise(int row, const PublishedScores& published) {
    const Key bound = published.best((k + pool.publishedRank - 1) / pool.publishedRank);
    if (threadIdx.x % 32 == 0 && bound > threshold(row)) setThreshold(row, bound - 1);
    __syncwarp();
  }

  // All kThreads, where blocks publish bests: a warp publishes a row's and, where `raises` is set, raises its
  // threshold.
  __device__ void exchangeBests(bool raises) {
    if (pool.blocks == 1) return;
    forEachRow([&](int row, const Warp&) {
      if (threshold(row) == kAboveAllKeys) return;
      publishBest(row);
      if (!raises) return;
      PublishedScores published;
      published.load(pool, rowBegin + row);
      raise(row, published);
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
  __device__ void tidy(int room, bool exchange) {
    forEachRow([&](int row, const Warp& warp) {
      if (!exchange && countOf(row) <= capacity - room) return;
      if (threshold(row) == kAboveAllKeys) return;
      SelectScratch& scratch = scratchOfWarp();
      Key* list = keys + row * rowStride;
      int count = clampCount(row, warp);
      if (pool.blocks > 1 && !publishesBests()) {
        if (count >= pool.publishedRank) {
          publish(row, kthOfList(list, count, pool.publishedRank, scratch));
        }
        PublishedScores published;
        published.load(pool, rowBegin + row);
        raise(row, published);
      }
      warp.sync();
      if (threshold(row) != kWorstKey) count = keepReaching(list, count, threshold(row) + 1);
      if (count > capacity - room && count > k) {
        const Key kth = kthOfList(list, count, k, scratch);
        count = keepReaching(list, count, kth);
        if (warp.thread_rank() == 0) setThreshold(row, kth - 1);
      }
      warp.sync();
      if (warp.thread_rank() == 0) countOf(row) = count;
      warp.sync();
    });
  }

  // Hands the block's candidates to the pool. `alone`: no other block scans these rows.
  __device__ void handOver(bool alone) {
    forEachRow([&](int row, const Warp& warp) {
      if (threshold(row) == kAboveAllKeys) return;
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
  static constexpr int kWarps = kThreads / 32;
  // In `shared`, of all rows: thresholds, their scores, counts, bests; then the scratch of each warp.
  static constexpr int kScoresAt = sizeof(Key), kCountsAt = kScoresAt + sizeof(float),
                       kBestsAt = kCountsAt + sizeof(int);

  template <class T>
  __device__ T* at(int bytesPerRow) const {
    return reinterpret_cast<T*>(shared + rowsPerBlock * bytesPerRow);
  }

  // Keys up to here cannot be among the k best; and its score, for a quick look. Volatile, for other warps read them at
  // any time, and late is good enough.
  __device__ volatile Key& threshold(int row) const { return at<volatile Key>(0)[row]; }
  __device__ volatile float& thresholdScore(int row) const { return at<volatile float>(kScoresAt)[row]; }
  __device__ int& countOf(int row) const { return at<int>(kCountsAt)[row]; }
  // [warps]: the best score so far of each warp's ids, as scoreBits has it.
  __device__ uint32_t* bestsOf(int row) const { return at<uint32_t>(kBestsAt) + row * kWarps; }
  __device__ SelectScratch& scratchOfWarp() const {
    return at<SelectScratch>(kBestsAt + kWarps * sizeof(uint32_t))[threadIdx.x / 32];
  }

  // Sorts like the key but for the id, and is above 0.
  static __device__ uint32_t scoreBits(Key key) { return static_cast<uint32_t>(key >> 32); }

  __device__ void setThreshold(int row, Key key) {
    // Atomic, for other warps may read at the same time.
    atomicExch(reinterpret_cast<unsigned long long*>(const_cast<Key*>(&threshold(row))), key);
    atomicExch(const_cast<float*>(&thresholdScore(row)), keyValue(key));
  }

  // Keys in the list; notes the loss where more were offered than it holds.
  __device__ int clampCount(int row, const Warp& warp) {
    const int count = countOf(row);
    if (count <= capacity) return count;
    warp.sync();
    if (warp.thread_rank() == 0) {
      countOf(row) = capacity;
      atomicOr(pool.counts + rowBegin + row, kLostCandidates);
    }
    return capacity;
  }

  __device__ void publish(int row, Key key) {
    if (threadIdx.x % 32 != 0) return;
    const auto score = static_cast<unsigned short>(publishedScore(key));
    __stcg(pool.published + (rowBegin + row) * kMaxPoolBlocks + blockIdx.x, score);
  }
};

}  // namespace lm_head
