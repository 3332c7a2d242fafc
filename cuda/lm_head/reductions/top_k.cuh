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
  bool oneTile;       // no block has more than one tile
  bool fewTiles;      // nor more than two: too few for blocks to learn of each other while they sweep
  Key* lists;         // [rows, gridDim.x, listCapacity], or null: lists are in shared memory
  const Key* bounds;  // [rows]: only keys below are wanted; null in the first sweep
  bool rescan;        // serves only rows with a rescanBound; their lists are the pool itself
  RowPool pool;
};

// A view of what a block keeps, in shared memory. kThreads: those of the block that score. kSeedsOf: ids of a tile,
// whose scores are one fragment for each warp; the better ones of each pair, the seeds, give thresholds before more of
// the tile is appended than there is room for. Or 0.
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
    for (int row = threadIdx.x; row < rows_; row += kThreads) {
      ownCount(row) = 0;
      written(row) = INT_MAX;
      cut(row) = kWorstKey;
      Key least = params_.rescan ? params_.pool.rescanBounds[rowBegin_ + row] - 1 : kWorstKey;
      if (!served(row)) least = kAboveAllKeys;
      setThreshold(row, least);
    }
  }

  // All workers, together, before a fragment's candidates are chosen: raises thresholds where it is time to. `scored`:
  // a bit (2 * pair + half) for each score that is there. `done`: tiles that lie behind this one.
  template <int kPairs>
  __device__ void raiseThresholds(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t scored, int done) {
    if (params_.rescan) return;
    if constexpr (kSeedsOf > 0 && kPairs > 1) {
      if (done == 0 && params_.listsMayFill) seed(ids, scores, scored, true);
    }
    if (done == 0 || (done & (done - 1)) != 0 || params_.pool.blocks == 1) return;
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys) continue;
      PublishedBounds published;
      published.load(params_.pool, rowBegin_ + row);
      raise(row, published);
    }
    syncWorkers<kThreads>();
  }

  // No score below can be wanted; NaN before there is a threshold.
  __device__ float leastScore(int row) const { return at<volatile float>(kScoresAt)[row]; }

  // All workers, together: takes those scores of a fragment whose bit is set in `candidates`.
  template <int kPairs>
  __device__ void offer(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t scored, uint32_t candidates,
                        int firstRow, int done) {
    bool seeded = done == 0;
    for (;;) {
      candidates = append(ids, scores, candidates, firstRow);
      if (!params_.listsMayFill || params_.rescan || !anyOfWorkers<kThreads>(candidates != 0)) return;
      if constexpr (kSeedsOf > 0 && kPairs > 1) {
        if (!seeded) seed(ids, scores, scored, false);
        seeded = true;
      }
      updateRows(Update::kMakeRoom);
      syncWorkers<kThreads>();
    }
  }

  // All workers, behind a tile, of which `done` are done: tells other blocks now and then how good this one's scores
  // are. `seeds`: whether seeds have told it of the first.
  __device__ void endTile(int done, bool seeds) {
    if ((done & (done - 1)) != 0 || params_.rescan || params_.pool.blocks == 1) return;
    if (done == 1 && seeds && params_.listsMayFill) return;
    syncWorkers<kThreads>();
    updateRows(Update::kPublish);
    syncWorkers<kThreads>();
  }

  // All workers, in the end: hands the block's candidates to the pool.
  __device__ void flush(int done, bool seeds) {
    if (params_.rescan) return;
    syncWorkers<kThreads>();
    updateRows(done == 1 && !(seeds && params_.listsMayFill) ? Update::kPublishAndFlush : Update::kFlush);
    syncWorkers<kThreads>();
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  // In `shared_`, of all rows each: thresholds, cuts, thresholds' scores, counts, written, seeds.
  static constexpr int kCutsAt = sizeof(Key), kScoresAt = 2 * sizeof(Key), kCountsAt = kScoresAt + sizeof(float),
                       kWrittenAt = kCountsAt + sizeof(int), kSeedsAt = kWrittenAt + sizeof(int);
  // Seeds of a row, at most four a lane; and rows whose seeds are there at the same time.
  static constexpr int kSeeds = kSeedsOf / 2, kSeedRows = 32;
  static_assert(kSeeds <= 128, "more seeds than a warp takes");
  static __host__ __device__ size_t stateBytes(int rowsPerBlock) {  // and each warp's last id behind the seeds
    const int seedRows = rowsPerBlock < kSeedRows ? rowsPerBlock : kSeedRows;
    return (rowsPerBlock * kSeedsAt + (seedRows * kSeeds + kWarps) * sizeof(uint32_t) + 7) / 8 * 8;
  }

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

  enum class Update { kMakeRoom, kPublish, kFlush, kPublishAndFlush };

  // A warp a row.
  __device__ void updateRows(Update update) {
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys || (update == Update::kMakeRoom && written(row) == INT_MAX)) continue;
      updateRow(row, update);
    }
  }

  // A warp looks at a row's list. For room or to hand it over, it leaves out what the threshold excludes, and where
  // that is not enough, all but the best.
  __device__ void updateRow(int row, Update update) {
    const bool flushes = update == Update::kFlush || update == Update::kPublishAndFlush;
    PublishedBounds published;
    if (flushes) published.load(params_.pool, rowBegin_ + row);
    const HeldKeys keys(listOf(row), min(ownCount(row), written(row)));
    if (update == Update::kPublish || update == Update::kPublishAndFlush) {
      const int rank = params_.pool.publishedRank;
      const bool enough = countReaching(keys, kWorstKey + 1) >= rank;
      publish(row, enough ? boundOfBest(keys, rank, withSlack(rank)) : kNothingToTell);
    }
    if (flushes) {
      if (params_.fewTiles) waitForOthers(row, published);
      raise(row, published);
    }
    const int keep = params_.keep;
    const int most = flushes                       ? withSlack(keep)
                     : update == Update::kMakeRoom ? capacity_ - (capacity_ - keep) / 2
                                                   : capacity_;  // just what lies below the threshold
    Key bound = threshold(row) + 1;
    int count = countReaching(keys, bound);
    if (count > most) {
      bound = boundOfBest(keys, keep, most);
      cutBelow(row, bound);
      count = countReaching(keys, bound);
    }
    Key* out = flushes ? handOver(row, count) : listOf(row);
    const int lane = threadIdx.x % 32;
    // In place, for a key moves to where all lanes have read.
    keys.forEach([&](Key key) {
      const unsigned lanes = __ballot_sync(0xffffffffu, key >= bound);
      if (key >= bound) out[__popc(lanes & ((1u << lane) - 1))] = key;
      out += __popc(lanes);
    });
    __syncwarp();
    if (lane == 0) {
      ownCount(row) = count;
      written(row) = INT_MAX;
    }
    __syncwarp();
  }

  // A warp waits until all blocks have told something of a row, but only some microseconds: others may not run yet.
  // Whoever has few tiles is done when the others are, so waiting costs little, and spares the merge most keys.
  __device__ void waitForOthers(int row, PublishedBounds& published) {
    constexpr long long kMostCycles = 16000;
    if (params_.pool.blocks == 1) return;
    const long long start = clock64();
    const auto hasTime = [&] { return __shfl_sync(0xffffffffu, clock64() - start < kMostCycles, 0); };
    while (published.count() < params_.pool.blocks && hasTime()) published.load(params_.pool, rowBegin_ + row);
  }

  // A warp gives up all keys below `bound`, which `keep` of the block's reach.
  __device__ void cutBelow(int row, Key bound) {
    if (threadIdx.x % 32 != 0 || bound - 1 <= threshold(row)) return;
    setThreshold(row, bound - 1);
    if (params_.keep < params_.k) cut(row) = bound - 1;
  }

  // A row's seeds over a warp, as keys: the upper half of a score's key, then the place of the pair, earlier ids first.
  struct Seeds {
    static constexpr int kOfLane = (kSeeds + 31) / 32;
    uint32_t seeds[kOfLane > 0 ? kOfLane : 1];

    __device__ Seeds(const uint32_t* row) {
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) {
        const int place = i * 32 + threadIdx.x % 32;
        seeds[i] = place < kSeeds ? row[place] : 0;
      }
    }
    template <class Visit>
    __device__ void forEach(Visit visit) const {
#pragma unroll
      for (int i = 0; i < kOfLane; ++i) {
        const auto place = static_cast<uint32_t>(i * 32 + threadIdx.x % 32);
        visit(seeds[i] == 0 ? kWorstKey : Key{seeds[i]} << 32 | (kLargestId - place));
      }
    }
  };

  // Thresholds from a tile's scores: what `keep` of its ids reach. Of the first tile, blocks also tell each other.
  template <int kPairs>
  __device__ void seed(const IdPair& ids, const float (&scores)[kPairs][2], uint32_t scored, bool first) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    auto* seeds = reinterpret_cast<uint32_t*>(shared_ + rowsPerBlock_ * kSeedsAt);
    // Of each warp's 16 ids the last: no id of its pairs lies behind it.
    const uint32_t lastId = ids.lower - g + 15;
    const int rank = params_.pool.publishedRank, keep = params_.keep;
    uint32_t* lastIds = seeds + min(rowsPerBlock_, kSeedRows) * kSeeds;
    if (lane == 0) lastIds[warp] = lastId;
    // What the n-th best pair of a row reaches, and so n ids do. Scores that are equal count by their ids.
    const auto boundAt = [&](const Seeds& own, int n) __attribute__((always_inline)) {
      const Key least = boundOfBest(own, n, withSlack(n));
      Key reached = kAboveAllKeys;
      own.forEach([&](Key key) {
        if (key >= least && key < reached) reached = key;
      });
      reached = smallestOfWarp(reached);
      const uint32_t place = kLargestId - static_cast<uint32_t>(reached);
      return reached >> 32 << 32 | (kLargestId - lastIds[place / 8]);
    };
#pragma unroll
    for (int half = 0; half < (kPairs > 8 ? 2 : 1); ++half) {
      if (half > 0) syncWorkers<kThreads>();
#pragma unroll
      for (int i = 8 * half; i < min(8 * half + 8, kPairs); ++i) {
        const int row = 4 * i + t;
        uint32_t best = 0;
        if (row < rows_) {
          const Key end = params_.bounds == nullptr ? kAboveAllKeys : params_.bounds[rowBegin_ + row];
          for (const int which : {0, 1}) {
            const Key key = makeKey(scores[i][which], ids.lower + 8 * which);
            if ((scored >> (2 * i + which) & 1) && key < end) best = max(best, static_cast<uint32_t>(key >> 32));
          }
          seeds[(row - 32 * half) * kSeeds + warp * 8 + g] = best;
        }
      }
      syncWorkers<kThreads>();
#pragma unroll 1
      for (int row = 32 * half + warp; row < min(rows_, 32 * half + 32); row += kWarps) {
        if (threshold(row) == kAboveAllKeys) continue;
        const Seeds own(seeds + (row - 32 * half) * kSeeds);
        const int there = countReaching(own, kWorstKey + 1);
        if (first) publish(row, there >= rank ? boundAt(own, rank) : kNothingToTell);
        if (there < keep) continue;
        cutBelow(row, boundAt(own, keep));
      }
    }
    if (first && params_.pool.blocks > 1) {
#pragma unroll 1
      for (int row = warp; row < rows_; row += kWarps) {
        if (threshold(row) == kAboveAllKeys) continue;
        PublishedBounds published;
        published.load(params_.pool, rowBegin_ + row);
        if (params_.oneTile) waitForOthers(row, published);
        raise(row, published);
      }
    }
    syncWorkers<kThreads>();
  }

  // What a block with fewer keys than publishedRank publishes: a bound that excludes nothing.
  static constexpr Key kNothingToTell = kWorstKey + 1;

  // A warp publishes a bound that publishedRank keys reach.
  __device__ void publish(int row, Key bound) {
    if (threadIdx.x % 32 == 0) __stcg(params_.pool.published + (rowBegin_ + row) * kMaxPoolBlocks + blockIdx.x, bound);
  }

  // A warp raises a row's threshold by what blocks have published.
  __device__ void raise(int row, const PublishedBounds& published) {
    const int rank = params_.pool.publishedRank, blocks = (params_.k + rank - 1) / rank;
    if (published.count() < blocks) return;
    const Key bound = boundOfBest(published, blocks, withSlack(blocks));
    if (threadIdx.x % 32 == 0 && bound > threshold(row)) setThreshold(row, bound - 1);
    __syncwarp();
  }

  // A warp: where `count` keys of a row go in the pool. The block's cut comes with them.
  __device__ Key* handOver(int row, int count) {
    const RowPool& pool = params_.pool;
    int begin = 0;
    if (threadIdx.x % 32 == 0) {
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
