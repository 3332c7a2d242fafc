// A block's candidates for the top k of each of its rows. Scores are filtered against a threshold; those that pass are
// appended to an unsorted list. Thresholds rise in two ways. Blocks tell each other how good their scores are, which
// loses nothing. And a list without room is cut back to its best `keep`, from when on the block knows nothing of what
// is worse: if the k-th best key that all blocks have kept beats every block's cut, nothing was lost, and the merge
// checks that. Otherwise the row is swept once more, now for every key that is not worse than the k-th best kept one.
// However scores lie, there are no more than k / keep times a block's ids of those: whoever cut off one of them had
// kept `keep` better ones. So no order of scores makes a row lose anything, or need more than two sweeps.
#pragma once

#include <climits>

#include "../block_rows.cuh"
#include "../fragment.cuh"
#include "../workers.cuh"
#include "row_pool.cuh"

namespace lm_head {

struct TopKParams {
  int k;              // results of this sweep, at most kMaxKPerSweep
  int keep;           // keys of a row that a block never cuts off; at least `publishedRank` and at most k
  int listCapacity;   // of a row and block
  bool listsMayFill;  // some list may have less room than a block has ids
  bool fewTiles;      // no block has more than two: too few for blocks to learn of each other while they sweep
  Key* lists;         // [rows, gridDim.x, listCapacity], or null: lists are in shared memory
  const Key* bounds;  // [rows]: only keys below are wanted; null in the first sweep
  bool rescan;        // serves only rows with a rescanBound; their lists are the pool itself
  RowPool pool;
};

// A view of what a block keeps, in shared memory. kThreads: those of the block that score. kSeedsOf: ids of a tile,
// whose scores are one fragment for each warp, the seeds: of the first tile they give thresholds before anything is
// appended, and of any tile before more is appended than there is room for. Or 0.
template <int kThreads, int kSeedsOf>
class TopK {
 public:
  // Shared memory: state of each row and seeds, then lists of `sharedKeys` keys.
  static __host__ __device__ size_t sharedBytes(int rowsPerBlock, int sharedKeys) {
    return stateBytes(rowsPerBlock) + static_cast<size_t>(rowsPerBlock) * sharedKeys * sizeof(Key);
  }

  __device__ TopK(const TopKParams& params, unsigned char* shared, const BlockRows& rows)
      : params_(params), shared_(shared), rowsPerBlock_(rows.most), rows_(rows.count), rowBegin_(rows.begin) {
    const int64_t rowBegin = rows.begin;
    if (params.rescan) {
      lists_ = params.pool.keys + rowBegin * params.pool.capacity;
      rowStride_ = params.pool.capacity;
      capacity_ = params.pool.capacity;
    } else if (params.lists != nullptr) {
      rowStride_ = static_cast<int64_t>(gridDim.x) * params.listCapacity;
      lists_ = params.lists + rowBegin * rowStride_ + static_cast<int64_t>(blockIdx.x) * params.listCapacity;
      capacity_ = params.listCapacity;
    } else {
      lists_ = reinterpret_cast<Key*>(shared + stateBytes(rows.most));
      rowStride_ = capacity_ = params.listCapacity;
    }
  }

  // Starts the rows that are `served(row)`; the others take no key and hand nothing over.
  template <class Served>
  __device__ void reset(Served served) {
    for (int row = threadOfBlock(); row < rows_; row += kThreads) {
      ownCount(row) = 0;
      written(row) = INT_MAX;
      cut(row) = kWorstKey;
      Key least = params_.rescan ? params_.pool.rescanBounds[rowBegin_ + row] - 1 : kWorstKey;
      if (!served(row)) least = kAboveAllKeys;
      setThreshold(row, least);
    }
  }

  // No score below can be wanted; NaN before there is a threshold.
  __device__ float leastScore(int row) const { return at<volatile float>(kScoresAt)[row]; }

  // All workers, together: takes what is wanted of a fragment's scores, of those whose bit (2 * pair + half) is set in
  // `scored`; `candidatesOf()` sets the bits of those that reach thresholds. `starts`: whether the tile is the block's
  // first. Every part stands here once, for code that is inlined at each use takes long to compile, and to load.
  template <int kPairs, class CandidatesOf>
  __device__ __forceinline__ void offer(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t scored,
                                        int firstRow, bool starts, CandidatesOf candidatesOf) {
    // A fragment of one row is of the rest main loop.
    constexpr bool kSeeds = kSeedsOf > 0 && kPairs > 1;
    bool agrees = kSeeds && starts && this->agrees();
    uint32_t candidates = 0;
    if (!agrees) {
      candidates = append<false>(ids, scores, candidatesOf(), firstRow);
      if (!params_.listsMayFill || params_.rescan || !anyOfWorkers<kThreads>(candidates != 0)) return;
    }
    // From here on scores are in memory, for what follows needs the registers, and the next products do too.
    float inMemory[kPairs][2];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) inMemory[i][0] = scores[i][0], inMemory[i][1] = scores[i][1];
    bool seeded = false;
#pragma unroll 1
    for (;;) {
      if constexpr (kSeeds) {
        if (!seeded) seed(ids, inMemory, scored, agrees);
        seeded = !agrees;
      }
      if (agrees) {
        // Before anything is appended, blocks agree on thresholds; what does not reach them is left out by its key.
        agreeWithOthers(true, true);
        syncWorkers<kThreads>();
        candidates = scored;
        agrees = false;
      } else {
        update(Update::kMakeRoom);
      }
      candidates = append<true>(ids, inMemory, candidates, firstRow);
      if (!params_.listsMayFill || params_.rescan || !anyOfWorkers<kThreads>(candidates != 0)) return;
    }
  }

  // All workers, behind a tile, of which `done` are done: tells other blocks now and then how good this one's scores
  // are, and learns of theirs. In the end hands the block's candidates to the pool. `seeded`: whether seeds have told
  // of the first tile.
  __device__ void endTile(int done, bool seeded, bool last) {
    if (params_.rescan) return;
    const bool tells = (done & (done - 1)) == 0 && !(done == 1 && seeded) && !(last && done > 1);
    // Then and one tile later, when all have told.
    const bool looks = (done & (done - 1)) == 0 || ((done - 1) & (done - 2)) == 0 || last;
#pragma unroll 1
    for (Update step = Update::kPublish;; step = Update::kFlush) {
      if (step == Update::kFlush || (tells && agrees())) update(step);
      if (step == Update::kFlush) return;
      if (agrees()) agreeWithOthers(looks, last && params_.fewTiles && !seeded);
      if (!last) return;
    }
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  // In `shared_`, of all rows each: thresholds, cuts, thresholds' scores, counts, written, seeds.
  static constexpr int kCutsAt = sizeof(Key), kScoresAt = 2 * sizeof(Key), kCountsAt = kScoresAt + sizeof(float),
                       kWrittenAt = kCountsAt + sizeof(int), kSeedsAt = kWrittenAt + sizeof(int);
  // Rows whose seeds are there at the same time, and from one to the next, which are to lie in other banks.
  static constexpr int kSeedRows = 16, kSeedPitch = kSeedsOf + 8;
  static __host__ __device__ size_t stateBytes(int rowsPerBlock) {  // and each warp's first id behind the seeds
    const int seedRows = kSeedsOf == 0 ? 0 : rowsPerBlock < kSeedRows ? rowsPerBlock : kSeedRows;
    return (rowsPerBlock * kSeedsAt + (seedRows * kSeedPitch + kWarps) * sizeof(uint32_t) + 7) / 8 * 8;
  }

  // Whether blocks tell each other of their scores.
  __device__ bool agrees() const { return !params_.rescan && params_.pool.blocks > 1; }

  template <class T>
  __device__ T* at(int bytesPerRow) const {
    return reinterpret_cast<T*>(shared_ + rowsPerBlock_ * bytesPerRow);
  }
  // Keys up to here cannot be among the k best. Volatile, for other warps read it at any time, and late is good enough.
  __device__ volatile Key& threshold(int row) const { return at<volatile Key>(0)[row]; }
  // The highest threshold that a list without room has led to, or kWorstKey.
  __device__ Key& cut(int row) const { return at<Key>(kCutsAt)[row]; }
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
  // the same row have their places by their number. kInMemory: whether scores are in memory, not in registers.
  template <bool kInMemory, int kPairs>
  __device__ uint32_t append(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t candidates, int firstRow) {
    const uint32_t any = __reduce_or_sync(0xffffffffu, candidates);
    if (any == 0) return 0;
    const int lane = laneOfWarp(), t = lane % 4;
    const unsigned sameRow = 0x11111111u << t, before = sameRow & ((1u << lane) - 1);
    uint32_t left = 0;
#pragma unroll(kInMemory ? 1 : kPairs)
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

  // All workers: learns thresholds from what blocks have published, if it `looks`; of many rows, from leaders, and is
  // one itself.
  __device__ void agreeWithOthers(bool looks, bool waits) {
    const bool few = rows_ <= kWarps;
    const int first = few ? 0 : blockIdx.x, stride = few ? 1 : gridDim.x;
#pragma unroll 1
    for (int row = first + warpOfBlock() * stride; looks && row < rows_; row += kWarps * stride) {
      if (threshold(row) == kAboveAllKeys) continue;
      const Key key = thresholdOfPublished(params_.pool, rowBegin_ + row, params_.k, waits);
      if (few) {
        if (laneOfWarp() == 0 && key > threshold(row)) setThreshold(row, key);
      } else if (key != kWorstKey || waits) {
        tellThreshold(params_.pool, rowBegin_ + row, max(key, kNothingToTell));
      }
      __syncwarp();
    }
    if (few) return;
    for (int row = threadOfBlock(); row < rows_; row += kThreads) {
      if (threshold(row) == kAboveAllKeys) continue;
      const Key agreed = agreedThreshold(params_.pool, rowBegin_ + row, waits);
      if (agreed > threshold(row)) setThreshold(row, agreed);
    }
  }

  enum class Update { kMakeRoom, kPublish, kFlush };

  // All workers: a warp a row.
  __device__ void update(Update update) {
    syncWorkers<kThreads>();
#pragma unroll 1
    for (int row = warpOfBlock(); row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys || (update == Update::kMakeRoom && written(row) == INT_MAX)) continue;
      updateRow(row, update);
    }
    syncWorkers<kThreads>();
  }

  // A warp looks at a row's list. It leaves out what the threshold excludes, and for room or to hand it over, where
  // that is not enough, all but the best.
  __device__ void updateRow(int row, Update update) {
    const int lane = laneOfWarp(), all = min(ownCount(row), written(row));
    const HeldKeys keys(listOf(row), all);
    const bool publishes = update == Update::kPublish, flushes = update == Update::kFlush;
    const int wanted = publishes ? params_.pool.publishedRank : params_.keep;
    const int slack = withSlack(wanted);
    const int most = update == Update::kMakeRoom ? min(slack, capacity_ - (capacity_ - wanted) / 2) : slack;
    Key bound = threshold(row) + 1;
    int count = countReaching(keys, bound);
    if (publishes ? all >= wanted : count > most) {
      const Key best = boundOfBest(keys, wanted, most);
      if (publishes) {
        publish(params_.pool, rowBegin_ + row, best);
      } else {
        bound = best;
        cutBelow(row, bound);
        count = countReaching(keys, bound);
      }
    } else if (publishes) {
      publish(params_.pool, rowBegin_ + row, kNothingToTell);
    }
    if (count < all || flushes) {
      Key* out = flushes ? handOver(row, count) : listOf(row);
      // In place: a key moves to where all lanes have read.
      keys.forEach([&](Key key) {
        const unsigned lanes = __ballot_sync(0xffffffffu, key >= bound);
        __syncwarp();
        if (key >= bound) out[__popc(lanes & ((1u << lane) - 1))] = key;
        out += __popc(lanes);
      });
    }
    __syncwarp();
    if (lane == 0) {
      ownCount(row) = count;
      written(row) = INT_MAX;
    }
    __syncwarp();
  }

  // A warp gives up all keys below `bound`, which `keep` of the block's reach.
  __device__ void cutBelow(int row, Key bound) {
    if (laneOfWarp() != 0 || bound - 1 <= threshold(row)) return;
    setThreshold(row, bound - 1);
    if (params_.keep < params_.k) cut(row) = bound - 1;
  }

  // A row's seeds over a warp: the upper halves of their keys, 0 where there is none.
  struct Seeds {
    static constexpr int kOfLane = (kSeedsOf + 31) / 32;
    const uint32_t* firstIds;
    uint32_t seeds[kOfLane > 0 ? kOfLane : 1];

    __device__ Seeds(const uint32_t* row, const uint32_t* firstIdsOfWarps) : firstIds(firstIdsOfWarps) {
      const int lane = laneOfWarp();
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) {
        const int place = i * 32 + lane;
        seeds[i] = place < kSeedsOf ? row[place] : 0;
      }
    }
    template <class Visit>
    __device__ void forEach(Visit visit) const {
      const uint32_t lane = laneOfWarp();
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) {
        const Key key = Key{seeds[i]} << 32 | (kLargestId - (firstIds[2 * i + lane / 16] + lane % 16));
        visit(seeds[i] == 0 ? kWorstKey : key);
      }
    }
  };

  // All workers: thresholds from all scores of a tile, for `keep` of its ids; or, of the first, what is published.
  template <int kPairs>
  __device__ void seed(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t scored, bool first) {
    const int warp = warpOfBlock(), lane = laneOfWarp(), g = lane / 4, t = lane % 4;
    auto* seeds = reinterpret_cast<uint32_t*>(shared_ + rowsPerBlock_ * kSeedsAt);
    uint32_t* firstIds = seeds + min(rowsPerBlock_, kSeedRows) * kSeedPitch;
    if (lane == 0) firstIds[warp] = ids.lower;
    const int wanted = first ? params_.pool.publishedRank : params_.keep;
#pragma unroll 1
    for (int begin = 0; begin < rows_; begin += kSeedRows) {
#pragma unroll 1
      for (int i = begin / 4; i < min((begin + kSeedRows) / 4, kPairs); ++i) {
        const int row = 4 * i + t;
        if (row >= rows_) continue;
        const Key end = params_.bounds == nullptr ? kAboveAllKeys : params_.bounds[rowBegin_ + row];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Key key = makeKey(scores[i][half], ids.lower + 8 * half);
          const bool counts = (scored >> (2 * i + half) & 1) && key < end;
          seeds[(row - begin) * kSeedPitch + warp * 16 + g + 8 * half] = counts ? static_cast<uint32_t>(key >> 32) : 0;
        }
      }
      syncWorkers<kThreads>();
#pragma unroll 1
      for (int row = begin + warp; row < min(rows_, begin + kSeedRows); row += kWarps) {
        if (threshold(row) == kAboveAllKeys) continue;
        const Seeds own(seeds + (row - begin) * kSeedPitch, firstIds);
        const bool enough = countReaching(own, kWorstKey + 1) >= wanted;
        const Key bound = enough ? boundOfBest(own, wanted, withSlack(wanted)) : kNothingToTell;
        if (first) {
          publish(params_.pool, rowBegin_ + row, bound);
        } else {
          cutBelow(row, bound);
        }
      }
      syncWorkers<kThreads>();
    }
  }

  // A warp: where `count` keys of a row go in the pool. The block's cut comes with them.
  __device__ Key* handOver(int row, int count) {
    const RowPool& pool = params_.pool;
    int begin = 0;
    if (laneOfWarp() == 0) {
      begin = atomicAdd(pool.counts + rowBegin_ + row, count);
      if (cut(row) != kWorstKey)
        atomicMax(reinterpret_cast<unsigned long long*>(pool.cuts + rowBegin_ + row), cut(row));
    }
    return pool.keys + (rowBegin_ + row) * pool.capacity + __shfl_sync(0xffffffffu, begin, 0);
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
