// A block's candidates for the top k of each of its rows. Scores are filtered against a threshold; those that pass are
// appended to an unsorted list. Thresholds rise in two ways: blocks tell each other how good their scores are, which
// loses nothing; and a list without room is cut back to its best `keep`. A block remembers the best key that it cut off
// below the k-th place: if k kept keys of all blocks beat what every block has cut off, nothing was lost, and the merge
// checks that. Otherwise the row is swept once more, now for every key that is not worse than the k-th best kept one.
// However scores lie, there are no more than k / keep times a block's ids of those: whoever cut off one of them had
// kept `keep` better ones. So no order of scores makes a row lose anything, or more than two sweeps.
#pragma once

#include <climits>

#include "../fragment.cuh"
#include "../workers.cuh"
#include "row_pool.cuh"

namespace lm_head {

struct TopKParams {
  int k;               // results of this sweep, at most kMaxKPerSweep
  int keep;            // keys of a row that a block never cuts off; at least `publishedRank` and at most k
  int listCapacity;    // of a row and block
  bool listsMayFill;   // some list may have less room than a block has ids
  Key* lists;          // [rows, gridDim.x, listCapacity], or null: lists are in shared memory
  const Key* bounds;   // [rows]: only keys below are wanted; null in the first sweep
  bool rescan;         // serves only rows with a rescanBound; their lists are the pool itself
  RowPool pool;
};

// kThreads: those of the block that score.
template <int kThreads>
class TopK {
 public:
  // Shared memory: state of each row, then lists of `sharedKeys` keys.
  static __host__ __device__ size_t sharedBytes(int rowsPerBlock, int sharedKeys) {
    return (rowsPerBlock * kStateBytes + 7) / 8 * 8 + static_cast<size_t>(rowsPerBlock) * sharedKeys * sizeof(Key);
  }

  __device__ TopK(const TopKParams& params, unsigned char* shared, int rowsPerBlock, int64_t rowBegin, int rows)
      : params_(params), shared_(shared), rowsPerBlock_(rowsPerBlock), rows_(rows), rowBegin_(rowBegin) {
    if (params.rescan) {
      lists_ = params.pool.keys + rowBegin * params.pool.capacity;
      rowStride_ = params.pool.capacity;
      capacity_ = params.pool.capacity;
    } else if (params.lists != nullptr) {
      rowStride_ = static_cast<int64_t>(gridDim.x) * params.listCapacity;
      lists_ = params.lists + rowBegin * rowStride_ + static_cast<int64_t>(blockIdx.x) * params.listCapacity;
      capacity_ = params.listCapacity;
    } else {
      lists_ = reinterpret_cast<Key*>(shared + (rowsPerBlock * kStateBytes + 7) / 8 * 8);
      rowStride_ = capacity_ = params.listCapacity;
    }
  }

  // Starts the rows that are `served(row)`; the others take no key and hand nothing over.
  template <class Served>
  __device__ void reset(Served served) {
    for (int row = threadIdx.x; row < rows_; row += kThreads) {
      ownCount(row) = 0;
      written(row) = INT_MAX;
      cutOff(row) = kWorstKey;
      Key least = params_.rescan ? params_.pool.rescanBounds[rowBegin_ + row] - 1 : kWorstKey;
      if (!served(row)) least = kAboveAllKeys;
      setThreshold(row, least);
    }
  }

  // No score below can be wanted; NaN before there is a threshold.
  __device__ float leastScore(int row) const { return at<volatile float>(kScoresAt)[row]; }

  // All workers, together: takes those scores of a fragment whose bit (2 * pair + half) is set in `candidates`.
  template <int kPairs>
  __device__ void offer(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t candidates, int firstRow) {
    for (;;) {
      candidates = append(ids, scores, candidates, firstRow);
      if (!params_.listsMayFill || params_.rescan || !anyOfWorkers<kThreads>(candidates != 0)) return;
      updateRows(Update::kMakeRoom);
      syncWorkers<kThreads>();
    }
  }

  // All workers: in the end hands the block's candidates to the pool; and before, blocks tell each other how good
  // their scores are, and thresholds rise.
  __device__ void exchange(bool flush) {
    if (params_.rescan || (params_.pool.blocks == 1 && !flush)) return;
    syncWorkers<kThreads>();
    updateRows(flush ? Update::kFlush : Update::kExchange);
    syncWorkers<kThreads>();
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  // In `shared_`, of all rows each: thresholds, what was cut off, thresholds' scores, counts, written.
  static constexpr int kCutOffAt = sizeof(Key), kScoresAt = 2 * sizeof(Key), kCountsAt = kScoresAt + sizeof(float),
                       kWrittenAt = kCountsAt + sizeof(int), kStateBytes = kWrittenAt + sizeof(int);

  template <class T>
  __device__ T* at(int bytesPerRow) const {
    return reinterpret_cast<T*>(shared_ + rowsPerBlock_ * bytesPerRow);
  }
  // Keys up to here cannot be among the k best. Volatile, for other warps read it at any time, and late is good enough.
  __device__ volatile Key& threshold(int row) const { return at<volatile Key>(0)[row]; }
  __device__ Key& cutOff(int row) const { return at<Key>(kCutOffAt)[row]; }
  __device__ int& ownCount(int row) const { return at<int>(kCountsAt)[row]; }
  // How many keys a list holds that some warp found no more room in; else INT_MAX.
  __device__ int& written(int row) const { return at<int>(kWrittenAt)[row]; }
  __device__ int* countOf(int row) const {
    return params_.rescan ? params_.pool.counts + rowBegin_ + row : &ownCount(row);
  }
  __device__ Key* listOf(int row) const { return lists_ + row * rowStride_; }

  __device__ void setThreshold(int row, Key key) {
    // Atomic, for other warps may read at the same time.
    atomicExch(reinterpret_cast<unsigned long long*>(at<Key>(0) + row), key);
    atomicExch(at<float>(kScoresAt) + row, keyValue(key));
  }

  // A warp appends what it can, and returns the bits of what found no room. One atomic for a warp and row: lanes with
  // the same row have their places by their number.
  template <int kPairs>
  __device__ uint32_t append(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t candidates, int firstRow) {
    const uint32_t any = __reduce_or_sync(0xffffffffu, candidates);
    if (any == 0) return 0;
    const int lane = threadIdx.x % 32, t = lane % 4;
    const unsigned sameRow = 0x11111111u << t, before = sameRow & ((1u << lane) - 1);
    uint32_t left = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      if ((any >> (2 * i) & 3) == 0) continue;
      const int row = firstRow + 4 * i + t;
      const bool mine = (candidates >> (2 * i) & 3) != 0;
      Key least = kAboveAllKeys, end = kAboveAllKeys;
      if (mine) {
        least = threshold(row);
        if (params_.bounds != nullptr) end = params_.bounds[rowBegin_ + row];
      }
      const Key lower = makeKey(scores[i][0], ids.lower), upper = makeKey(scores[i][1], ids.lower + 8);
      const bool wantsLower = (candidates >> (2 * i) & 1) && lower > least && lower < end;
      const bool wantsUpper = (candidates >> (2 * i + 1) & 1) && upper > least && upper < end;
      const unsigned lowerLanes = __ballot_sync(0xffffffffu, wantsLower),
                     upperLanes = __ballot_sync(0xffffffffu, wantsUpper);
      const int lowerCount = __popc(lowerLanes & sameRow), count = lowerCount + __popc(upperLanes & sameRow);
      int begin = 0;
      if (lane == t && count > 0) begin = atomicAdd(countOf(row), count);
      begin = __shfl_sync(0xffffffffu, begin, t);
      if (begin + count <= capacity_) {
        if (wantsLower) listOf(row)[begin + __popc(lowerLanes & before)] = lower;
        if (wantsUpper) listOf(row)[begin + lowerCount + __popc(upperLanes & before)] = upper;
      } else {
        left |= (static_cast<uint32_t>(wantsLower) | static_cast<uint32_t>(wantsUpper) << 1) << (2 * i);
        if (lane == t && count > 0) atomicMin(&written(row), begin);
      }
    }
    return left;
  }

  enum class Update { kMakeRoom, kExchange, kFlush };

  // A warp a row.
  __device__ void updateRows(Update update) {
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys || (update == Update::kMakeRoom && written(row) == INT_MAX)) continue;
      updateRow(row, update);
    }
  }

  // A warp drops the keys of a row's list that its threshold excludes; where that leaves too many, all but the best.
  __device__ void updateRow(int row, Update update) {
    const bool alone = update == Update::kMakeRoom || params_.pool.blocks == 1;
    PublishedScores published;
    if (!alone) published.load(params_.pool, rowBegin_ + row);
    const int held = min(ownCount(row), written(row));
    const HeldKeys keys(listOf(row), held);
    if (!alone) {
      if (update == Update::kExchange) publish(row, keys, held);
      raise(row, published);
    }
    const int keep = params_.keep;
    const int most = update == Update::kMakeRoom ? capacity_ - (capacity_ - keep) / 2
                     : update == Update::kFlush  ? keep
                                                 : capacity_;
    Key bound = threshold(row) + 1;
    int count = countReaching(keys, bound);
    if (count > most) {
      bound = boundOfBest(keys, keep, most);
      if (keep < params_.k) {
        const Key best = largestBelow(keys, bound);
        if (threadIdx.x % 32 == 0 && best > cutOff(row)) cutOff(row) = best;
      }
      if (threadIdx.x % 32 == 0) setThreshold(row, bound - 1);
      count = countReaching(keys, bound);
    }
    if (update == Update::kFlush) return handOver(row, keys, bound, count);
    if (count < held) keepReaching(listOf(row), held, bound);
    if (threadIdx.x % 32 == 0) {
      ownCount(row) = count;
      written(row) = INT_MAX;
    }
    __syncwarp();
  }

  // A warp publishes a score that at least publishedRank keys of the row's list reach.
  __device__ void publish(int row, const HeldKeys& keys, int held) {
    const int rank = params_.pool.publishedRank;
    if (held < rank) return;
    const Key bound = boundOfBest(keys, rank, rank, kPublishedBit);
    if (threadIdx.x % 32 != 0) return;
    __stcg(params_.pool.published + (rowBegin_ + row) * kMaxPoolBlocks + blockIdx.x,
           static_cast<unsigned short>(bound >> kPublishedBit));
  }

  // A warp raises a row's threshold by what blocks have published.
  __device__ void raise(int row, const PublishedScores& published) {
    const int rank = params_.pool.publishedRank;
    const Key bound = published.best((params_.k + rank - 1) / rank);
    if (threadIdx.x % 32 == 0 && bound > threshold(row)) setThreshold(row, bound - 1);
    __syncwarp();
  }

  // A warp hands `count` keys that reach `bound` to the pool, and what the block has cut off.
  __device__ void handOver(int row, const HeldKeys& keys, Key bound, int count) {
    const RowPool& pool = params_.pool;
    const int lane = threadIdx.x % 32;
    int begin = 0;
    if (lane == 0) {
      begin = atomicAdd(pool.counts + rowBegin_ + row, count);
      if (cutOff(row) != kWorstKey)
        atomicMax(reinterpret_cast<unsigned long long*>(pool.dropped + rowBegin_ + row), cutOff(row));
    }
    Key* out = pool.keys + (rowBegin_ + row) * pool.capacity + __shfl_sync(0xffffffffu, begin, 0);
    keys.forEach([&](Key key) {
      const unsigned lanes = __ballot_sync(0xffffffffu, key >= bound);
      if (key >= bound) out[__popc(lanes & ((1u << lane) - 1))] = key;
      out += __popc(lanes);
    });
  }

  const TopKParams& params_;
  unsigned char* shared_;
  int rowsPerBlock_, rows_;
  int64_t rowBegin_;  // row 0 of the block among all rows
  Key* lists_;        // of row r from r * rowStride_ on; shared or global memory
  int64_t rowStride_;
  int capacity_;
};

}  // namespace lm_head
