// A block's candidates for the top k of each of its rows. Scores are filtered against a threshold; those that pass are
// appended to an unsorted list. Thresholds rise in two ways. Blocks tell each other how good their scores are, which
// loses nothing. And a list without room is cut back to its best `keep`, from when on the block knows nothing of what is
// worse: if the k-th best key that all blocks have kept beats every block's cut, nothing was lost, and the merge checks
// that. Otherwise the row is swept once more, now for every key that is not worse than the k-th best kept one. However
// scores lie, there are no more than k / keep times a block's ids of those: whoever cut off one of them had kept `keep`
// better ones. So no order of scores makes a row lose anything, or need more than two sweeps.
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
  bool oneTile;        // no block has more than one tile
  Key* lists;          // [rows, gridDim.x, listCapacity], or null: lists are in shared memory
  const Key* bounds;   // [rows]: only keys below are wanted; null in the first sweep
  bool rescan;         // serves only rows with a rescanBound; their lists are the pool itself
  RowPool pool;
};

// kThreads: those of the block that score. kSeedIds: 0, or the best of each so many ids of a block's first tile, whose
// scores are one fragment for each warp, give thresholds before any of them is appended.
template <int kThreads, int kSeedIds>
class TopK {
 public:
  // Shared memory: state of each row and seeds, then lists of `sharedKeys` keys.
  static __host__ __device__ size_t sharedBytes(int rowsPerBlock, int sharedKeys) {
    return stateBytes(rowsPerBlock) + static_cast<size_t>(rowsPerBlock) * sharedKeys * sizeof(Key);
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
      lists_ = reinterpret_cast<Key*>(shared + stateBytes(rowsPerBlock));
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

  // All workers: `done` tiles lie behind the one that begins.
  __device__ void beginTile(int done) {
    raisesNext_ = (done & (done - 1)) == 0 && !params_.rescan && params_.pool.blocks > 1;
    seedsNext_ = done == 0 && !params_.rescan;
  }

  // All workers, together, before a fragment's candidates are chosen: raises thresholds where it is time to.
  template <int kPairs>
  __device__ void raiseThresholds(const float (&scores)[kPairs][2]) {
    if constexpr (kSeedIds > 0 && kPairs > 1) {
      if (seedsNext_) {
        seed(scores);
        seedsNext_ = raisesNext_ = false;
        return;
      }
    }
    if (raisesNext_ && !seedsNext_) {
#pragma unroll 1
      for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
        if (threshold(row) == kAboveAllKeys) continue;
        PublishedScores published;
        published.load(params_.pool, rowBegin_ + row);
        raise(row, published);
      }
      syncWorkers<kThreads>();
    }
    raisesNext_ = false;
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

  // All workers, behind a tile, of which `done` are done: tells other blocks now and then how good this one's scores
  // are.
  __device__ void endTile(int done) {
    // Seeds have told it of the first.
    if ((done & (done - 1)) != 0 || (done == 1 && kSeedIds > 0) || params_.rescan || params_.pool.blocks == 1) return;
    syncWorkers<kThreads>();
    updateRows(Update::kPublish);
    syncWorkers<kThreads>();
  }

  // All workers, in the end: hands the block's candidates to the pool.
  __device__ void flush() {
    if (params_.rescan) return;
    syncWorkers<kThreads>();
    updateRows(Update::kFlush);
    syncWorkers<kThreads>();
  }

 private:
  static constexpr int kWarps = kThreads / 32;
  // In `shared_`, of all rows each: thresholds, cuts, thresholds' scores, counts, written, seeds.
  static constexpr int kCutsAt = sizeof(Key), kScoresAt = 2 * sizeof(Key), kCountsAt = kScoresAt + sizeof(float),
                       kWrittenAt = kCountsAt + sizeof(int), kSeedsAt = kWrittenAt + sizeof(int);
  // Of a row; at most two a lane.
  static constexpr int kSeedsOfWarp = kSeedIds > 0 ? 16 / kSeedIds : 0, kSeeds = kWarps * kSeedsOfWarp;
  static_assert(kSeeds <= 64, "more seeds than a warp takes");
  static __host__ __device__ size_t stateBytes(int rowsPerBlock) {
    return (rowsPerBlock * (kSeedsAt + kSeeds * sizeof(uint32_t)) + 7) / 8 * 8;
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

  enum class Update { kMakeRoom, kPublish, kFlush };

  // A warp a row.
  __device__ void updateRows(Update update) {
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys || (update == Update::kMakeRoom && written(row) == INT_MAX)) continue;
      updateRow(row, update);
    }
  }

  // A warp looks at a row's list. For room or to hand it over, it leaves out what the threshold excludes, and where that
  // is not enough, all but the best.
  __device__ void updateRow(int row, Update update) {
    const bool flushes = update == Update::kFlush;
    PublishedScores published;
    if (flushes) published.load(params_.pool, rowBegin_ + row);
    const int held = min(ownCount(row), written(row));
    const HeldKeys keys(listOf(row), held);
    if (update == Update::kPublish) {
      const int rank = params_.pool.publishedRank;
      if (held >= rank) publish(row, boundOfBest(keys, rank, rank, kPublishedBit));
      return;
    }
    if (flushes) raise(row, published);
    const int keep = params_.keep, most = flushes ? keep : capacity_ - (capacity_ - keep) / 2;
    Key bound = threshold(row) + 1;
    int count = countReaching(keys, bound);
    if (count > most) {
      bound = boundOfBest(keys, keep, most);
      cutBelow(row, bound);
      count = countReaching(keys, bound);
    }
    if (flushes) return handOver(row, keys, bound, count);
    if (count < held) keepReaching(listOf(row), held, bound);
    if (threadIdx.x % 32 == 0) {
      ownCount(row) = count;
      written(row) = INT_MAX;
    }
    __syncwarp();
  }

  // A warp gives up all keys below `bound`, which `keep` of the block's reach.
  __device__ void cutBelow(int row, Key bound) {
    if (threadIdx.x % 32 != 0 || bound - 1 <= threshold(row)) return;
    setThreshold(row, bound - 1);
    if (params_.keep < params_.k) cut(row) = bound - 1;
  }

  // The best of each kSeedIds scores, over a warp.
  struct Seeds {
    uint32_t first, second;
    template <class Visit>
    __device__ void forEach(Visit visit) const {
      visit(Key{first} << 32);
      visit(Key{second} << 32);
    }
  };

  // Thresholds from the first tile: what `keep` of the block's ids reach, and what blocks tell each other.
  template <int kPairs>
  __device__ void seed(const float (&scores)[kPairs][2]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t* seeds = at<uint32_t>(kSeedsAt);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      float best = fmaxf(scores[i][0], scores[i][1]);  // not NaN where another is there: a lower bound will do
      if (kSeedIds == 4) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 4));
      const int place = threadIdx.x / 32 * kSeedsOfWarp + (kSeedIds == 4 ? g / 2 : g), row = 4 * i + t;
      // Ids that are not there have -inf.
      if (row < rows_) seeds[row * kSeeds + place] = best == -INFINITY ? 0 : static_cast<uint32_t>(makeKey(best, 0) >> 32);
    }
    syncWorkers<kThreads>();
    const int rank = params_.pool.publishedRank;
    const auto seedsOf = [&](int row) {
      return Seeds{lane < kSeeds ? seeds[row * kSeeds + lane] : 0, lane + 32 < kSeeds ? seeds[row * kSeeds + lane + 32] : 0};
    };
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys) continue;
      const Seeds own = seedsOf(row);
      if (countReaching(own, 1) >= rank) publish(row, boundOfBest(own, rank, rank, kPublishedBit));
    }
    const long long start = clock64();
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < rows_; row += kWarps) {
      if (threshold(row) == kAboveAllKeys) continue;
      const Seeds own = seedsOf(row);
      const int keep = params_.keep;
      if (keep <= kSeeds && countReaching(own, 1) >= keep) cutBelow(row, boundOfBest(own, keep, keep + keep / 8, 32));
      PublishedScores published;
      published.load(params_.pool, rowBegin_ + row);
      // Blocks that have nothing else to do wait for each other, a few microseconds, for others may not run yet.
      constexpr long long kMostCycles = 16000;
      while (params_.oneTile && published.count() < params_.pool.blocks && clock64() - start < kMostCycles)
        published.load(params_.pool, rowBegin_ + row);
      raise(row, published);
    }
    syncWorkers<kThreads>();
  }

  // A warp publishes the upper bits of a bound that publishedRank keys reach.
  __device__ void publish(int row, Key bound) {
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

  // A warp hands `count` keys that reach `bound` to the pool, and the block's cut.
  __device__ void handOver(int row, const HeldKeys& keys, Key bound, int count) {
    const RowPool& pool = params_.pool;
    const int lane = threadIdx.x % 32;
    int begin = 0;
    if (lane == 0) {
      begin = atomicAdd(pool.counts + rowBegin_ + row, count);
      if (cut(row) != kWorstKey)
        atomicMax(reinterpret_cast<unsigned long long*>(pool.cuts + rowBegin_ + row), cut(row));
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
  bool seedsNext_ = false, raisesNext_ = false;
};

}  // namespace lm_head
