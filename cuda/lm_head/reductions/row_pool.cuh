// What the blocks that sweep a row share of it, all in global memory: their candidates, and scores that tell each other
// how good a candidate has to be.
#pragma once

#include "../../common/select.cuh"

namespace lm_head {

// More blocks than this do not share a row: a warp loads what all of them have published at once.
constexpr int kMaxPoolBlocks = 192;

struct RowPool {
  Key* published;     // [rows, kMaxPoolBlocks]: a bound that at least m of a block's ids so far reach
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
  for (int i = threadIdx.x; i < pool.blocks; i += blockDim.x) pool.published[row * kMaxPoolBlocks + i] = kWorstKey;
  if (threadIdx.x == 0) {
    pool.counts[row] = pool.taken[row] = 0;
    pool.cuts[row] = kWorstKey;
  }
}

__device__ inline void clearRow(const RowPool& pool, int64_t row) {
  clearCandidates(pool, row);
  if (threadIdx.x == 0) pool.rescanBounds[row] = kWorstKey;
}

// What the blocks of a row have published, over a warp. The j-th best of bounds that at least m ids each reach is a
// bound that at least j * m ids reach, whatever the blocks see of each other, and when.
class PublishedBounds {
 public:
  // Takes its time.
  __device__ void load(const RowPool& pool, int64_t row) {
    const Key* bounds = pool.published + row * kMaxPoolBlocks;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int block = i * 32 + threadIdx.x % 32;
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

}  // namespace lm_head
