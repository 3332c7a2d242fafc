// How the vocabulary is cut into tiles, ids that a block scores together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lm_head {

// A group: 64 neighbouring ids, whose exponentials are summed in one fixed way.
constexpr int kGroupIds = 64;

// `size` ids: groups whose first ids are `stride` apart. Where stride is kGroupIds, all of them are neighbours.
struct Tile {
  int64_t firstId;
  int size;
  int64_t stride;

  __device__ int64_t id(int offset) const { return firstId + offset / kGroupIds * stride + offset % kGroupIds; }
};

// Blocks take tiles in turn, so that neighbouring ids, which often win together, go to many blocks.
struct Tiling {
  int64_t vocabSize = 0;
  int64_t tiles = 0;         // those of a block are blockIdx.x, blockIdx.x + gridDim.x, ...
  int64_t firstDynamic = 0;  // tiles from here on go to the blocks that come first: see `whole`
  int mostDynamic = 0;       // that a block takes

  Tiling() = default;

  // Tiles of neighbours. Behind the full rounds each block gets one smaller tile, a multiple of `granularity`. With
  // `dynamic`, the last full round and the small tiles go to the blocks that come first: memory does not serve all
  // multiprocessors alike. On the host, for 64-bit divisions take long on the device.
  static Tiling whole(int64_t vocabSize, int64_t blocks, int fullSize, int granularity, bool dynamic) {
    Tiling tiling;
    tiling.vocabSize = vocabSize;
    tiling.fullSize_ = fullSize;
    tiling.fullTiles_ = vocabSize / fullSize / blocks * blocks;
    const int64_t rest = vocabSize - tiling.fullTiles_ * fullSize, piece = blocks * granularity;
    tiling.smallSize_ = static_cast<int>((rest + piece - 1) / piece) * granularity;
    if (tiling.smallSize_ == 0) tiling.smallSize_ = granularity;
    tiling.tiles = tiling.fullTiles_ + (rest + tiling.smallSize_ - 1) / tiling.smallSize_;
    // The first tile of a block is always its own.
    tiling.firstDynamic =
        dynamic && tiling.fullTiles_ > 0 ? std::max(tiling.fullTiles_ - blocks, blocks) : tiling.tiles;
    // One more than equal shares would be.
    if (tiling.dynamicTiles() > 0)
      tiling.mostDynamic = static_cast<int>((tiling.dynamicTiles() + blocks - 1) / blocks) + 1;
    tiling.mostIdsOfBlock = (tiling.fullTiles_ / blocks + 1 + (dynamic ? 1 : 0)) * static_cast<int64_t>(fullSize);
    tiling.neighbours = fullSize;
    return tiling;
  }

  // Tiles of up to `groups` groups, which are dealt to the blocks one by one: no block has more of a run of
  // neighbours than another, and all have the same number of groups, but for one.
  static Tiling dealt(int64_t vocabSize, int64_t blocks, int groups) {
    Tiling tiling;
    tiling.vocabSize = vocabSize;
    tiling.blocks_ = static_cast<int>(blocks);
    tiling.groupsOfTile_ = groups;
    tiling.allGroups_ = (vocabSize + kGroupIds - 1) / kGroupIds;
    const int64_t round = blocks * groups, rounds = tiling.allGroups_ / round;
    tiling.tiles = tiling.firstDynamic = rounds * blocks + std::min(tiling.allGroups_ - rounds * round, blocks);
    tiling.mostIdsOfBlock = (tiling.allGroups_ + blocks - 1) / blocks * kGroupIds;
    tiling.neighbours = kGroupIds;
    return tiling;
  }

  int64_t dynamicTiles() const { return tiles - firstDynamic; }

  int64_t mostIdsOfBlock = 0;
  int neighbours = 0;  // so many neighbouring ids go to one block

#ifdef __CUDACC__
  __device__ Tile at(int64_t index) const {
    if (groupsOfTile_ > 0) {
      const int round = static_cast<int>(index) / blocks_, block = static_cast<int>(index) % blocks_;
      const int64_t first = static_cast<int64_t>(round) * groupsOfTile_ * blocks_ + block;
      const int64_t left = (allGroups_ - first + blocks_ - 1) / blocks_;
      return {first * kGroupIds, static_cast<int>(min(left, static_cast<int64_t>(groupsOfTile_))) * kGroupIds,
              static_cast<int64_t>(blocks_) * kGroupIds};
    }
    if (index < fullTiles_) return {index * fullSize_, fullSize_, kGroupIds};
    return {fullTiles_ * fullSize_ + (index - fullTiles_) * smallSize_, smallSize_, kGroupIds};
  }
#endif

 private:
  // `whole`
  int64_t fullTiles_ = 0;
  int fullSize_ = 0;
  int smallSize_ = 0;
  // `dealt`
  int groupsOfTile_ = 0;
  int blocks_ = 0;
  int64_t allGroups_ = 0;
};

}  // namespace lm_head
