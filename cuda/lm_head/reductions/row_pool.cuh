// What the blocks that sweep a row share of it, all in global memory: their candidates, and how good a candidate has to
// be. For that each block publishes what some of its ids reach. Of few rows each block looks at what all have
// published; of many that would take longer than the products do, so one of the blocks, the row's leader, makes a
// threshold of it, which the others read.
#pragma once

#include "../../common/select.cuh"

namespace lm_head {

// More blocks than this do not share a row: a warp loads what all of them have published at once.
constexpr int kMaxPoolBlocks = 192;

struct RowPool {
  Key* published;     // [rows, kMaxPoolBlocks]: a bound that at least m of a block's ids so far reach
  Key* thresholds;    // [rows]: of many rows, what leaders say: keys up to here are not among the k best; or kWorstKey
  Key* keys;          // [rows, capacity]: candidates of all blocks
  int* counts;        // [rows]
  Key* cuts;          // [rows]: up to here some block may have lost keys, for want of room; or kWorstKey
  Key* rescanBounds;  // [rows]: kWorstKey, or what is wanted of a row that has to be swept once more
  int* taken;         // [rows]: of a row group's first row, dynamic tiles that blocks have taken
  int blocks;
  int publishedRank;  // m
  int capacity;
};

// Empties a row's pool; all threads of a block call it.
__device__ inline void clearCandidates(const RowPool& pool, int64_t row) {
  for (int i = threadOfBlock(); i < pool.blocks; i += blockDim.x) pool.published[row * kMaxPoolBlocks + i] = kWorstKey;
  if (threadOfBlock() == 0) {
    pool.counts[row] = pool.taken[row] = 0;
    pool.cuts[row] = pool.thresholds[row] = kWorstKey;
  }
}

__device__ inline void clearRow(const RowPool& pool, int64_t row) {
  clearCandidates(pool, row);
  if (threadOfBlock() == 0) pool.rescanBounds[row] = kWorstKey;
}

// Above kWorstKey, but excludes nothing: what a block publishes that has too few ids, and what a leader then agrees to.
constexpr Key kNothingToTell = kWorstKey + 1;

// A warp publishes a bound that publishedRank of the block's keys reach.
__device__ inline void publish(const RowPool& pool, int64_t row, Key bound) {
  if (laneOfWarp() != 0) return;
  atomicMax(reinterpret_cast<unsigned long long*>(pool.published + row * kMaxPoolBlocks + blockIdx.x), bound);
}

// What the blocks of a row have published, over a warp. The j-th best of bounds that at least m ids each reach is a
// bound that at least j * m ids reach, whatever the blocks see of each other, and when.
class PublishedBounds {
 public:
  // Takes its time.
  __device__ void load(const RowPool& pool, int64_t row) {
    const Key* bounds = pool.published + row * kMaxPoolBlocks;
    const int lane = laneOfWarp();
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int block = i * 32 + lane;
      bounds_[i] = block < pool.blocks ? __ldcg(bounds + block) : kWorstKey;
    }
  }

  template <class Visit>
  __device__ void forEach(Visit visit) const {
#pragma unroll
    for (const Key bound : bounds_) visit(bound);
  }

  // How many blocks have published anything.
  __device__ int count() const { return countReaching(*this, kWorstKey + 1); }

 private:
  static constexpr int kOfLane = kMaxPoolBlocks / 32;
  Key bounds_[kOfLane];
};

// Blocks wait for each other only some microseconds, for others may not run yet; a row's leader a little less.
constexpr long long kMostLeaderCycles = 12000, kMostCycles = 16000;

// A warp: a threshold from what blocks have published, or kWorstKey. `waits`: until all have published something.
__device__ inline Key thresholdOfPublished(const RowPool& pool, int64_t row, int k, bool waits) {
  PublishedBounds published;
  published.load(pool, row);
  int count = published.count();
  if (waits) {
    const long long start = clock64();
    const auto hasTime = [&] { return __shfl_sync(0xffffffffu, clock64() - start < kMostLeaderCycles, 0); };
    while (count < pool.blocks && hasTime()) {
      published.load(pool, row);
      count = published.count();
    }
  }
  const int wanted = (k + pool.publishedRank - 1) / pool.publishedRank;
  if (countReaching(published, kNothingToTell + 1) < wanted) return kWorstKey;
  return boundOfBest(published, wanted, withSlack(wanted)) - 1;
}

// A warp of a row's leader tells the other blocks.
__device__ inline void tellThreshold(const RowPool& pool, int64_t row, Key threshold) {
  if (laneOfWarp() == 0) atomicMax(reinterpret_cast<unsigned long long*>(pool.thresholds + row), threshold);
}

// A thread: the threshold that a row's leader has told, or kWorstKey. `waits`: for the leader.
__device__ inline Key agreedThreshold(const RowPool& pool, int64_t row, bool waits) {
  Key threshold = __ldcg(pool.thresholds + row);
  if (!waits) return threshold;
  const long long start = clock64();
  while (threshold == kWorstKey && clock64() - start < kMostCycles) threshold = __ldcg(pool.thresholds + row);
  return threshold;
}

}  // namespace lm_head
