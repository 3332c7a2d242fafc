// What the blocks that sweep a row share of it, all in global memory: their candidates, and scores that tell each other
// how good a candidate has to be.
#pragma once

#include "../../common/select.cuh"

namespace lm_head {

// More blocks than this do not share a row: a warp loads what all of them have published at once.
constexpr int kMaxPoolBlocks = 256;

struct RowPool {
  uint16_t* published;  // [rows, kMaxPoolBlocks]: a score that at least m of a block's ids so far reach, see below
  Key* keys;            // [rows, capacity]: candidates of all blocks
  int* counts;          // [rows]
  Key* cuts;            // [rows]: up to here some block may have lost keys, for want of room; or kWorstKey
  Key* rescanBounds;    // [rows]: kWorstKey, or what is wanted of a row that has to be swept once more
  int* taken;           // [rows]: of a row group's first row, dynamic tiles that blocks have taken
  int blocks;
  int publishedRank;  // m
  int capacity;
};

// Empties a row's pool; all threads of a block call it.
__device__ inline void clearCandidates(const RowPool& pool, int64_t row) {
  constexpr int kWords = kMaxPoolBlocks / 2;
  auto* words = reinterpret_cast<uint32_t*>(pool.published + row * kMaxPoolBlocks);
  for (int i = threadIdx.x; i < kWords; i += blockDim.x) words[i] = 0;
  if (threadIdx.x == 0) {
    pool.counts[row] = pool.taken[row] = 0;
    pool.cuts[row] = kWorstKey;
  }
}

__device__ inline void clearRow(const RowPool& pool, int64_t row) {
  clearCandidates(pool, row);
  if (threadIdx.x == 0) pool.rescanBounds[row] = kWorstKey;
}

// Published is the upper quarter of a key: what at least as many ids reach as the key.
constexpr int kPublishedBit = 48;

// What the blocks of a row have published, over a warp. The j-th best of scores that at least m ids each reach is a
// score that at least j * m ids reach, whatever the blocks see of each other, and when.
class PublishedScores {
 public:
  // Takes its time.
  __device__ void load(const RowPool& pool, int64_t row) {
    packed_ = __ldcg(reinterpret_cast<const uint4*>(pool.published + row * kMaxPoolBlocks) + threadIdx.x % 32);
  }

  // How many blocks have published anything.
  __device__ int count() const {
    const uint32_t pairs[] = {packed_.x, packed_.y, packed_.z, packed_.w};
    int published = 0;
#pragma unroll
    for (const uint32_t pair : pairs) published += (pair & 0xffff) != 0, published += pair >> 16 != 0;
    return __reduce_add_sync(0xffffffffu, published);
  }

  // The j-th best, as the worst key with that score.
  __device__ Key best(int j) const {
    const uint32_t pairs[] = {packed_.x, packed_.y, packed_.z, packed_.w};
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
    if (__reduce_add_sync(0xffffffffu, published) < j) return kWorstKey;
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
    return Key{found} << kPublishedBit;
  }

 private:
  static constexpr int kOfLane = kMaxPoolBlocks / 32;
  uint4 packed_;
};

}  // namespace lm_head
