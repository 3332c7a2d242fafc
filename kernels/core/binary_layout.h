// How a binary head lies in memory: tiles of 256 ids, each with its bits and then its scales. A lane of a tensor-core
// fragment finds its words of 512 columns side by side, and what 16 ids need of these columns is one piece.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace lm_head {

struct BinaryLayout {
  static constexpr int kTileIds = 256;
  static constexpr int kBlockWords = 4;   // a block is 128 columns
  static constexpr int kChunkBlocks = 4;  // blocks that lie interleaved; the last chunk of a tile may have fewer
  static constexpr int kQuadGroups = 4;   // scales of four groups lie side by side
  static constexpr int kLanes = 32;       // lane = id % 8 * 4 + word % 4
  // Dot products of larger groups have more digits than the kernels' way from integers to floats keeps.
  static constexpr int64_t kMaxGroupSize = 32768;

  int64_t hiddenSize;
  int64_t groupSize;

  static LM_HEAD_HOST_DEVICE int64_t tiles(int64_t vocabSize) { return (vocabSize + kTileIds - 1) / kTileIds; }

  LM_HEAD_HOST_DEVICE int64_t words() const { return hiddenSize / 32; }
  LM_HEAD_HOST_DEVICE int64_t blocks() const { return (words() + kBlockWords - 1) / kBlockWords; }
  LM_HEAD_HOST_DEVICE int64_t chunks() const { return (blocks() + kChunkBlocks - 1) / kChunkBlocks; }
  LM_HEAD_HOST_DEVICE int64_t groups() const { return hiddenSize / groupSize; }
  LM_HEAD_HOST_DEVICE int64_t quads() const { return (groups() + kQuadGroups - 1) / kQuadGroups; }

  // 32-bit words of a tile: its bits, and all of it.
  LM_HEAD_HOST_DEVICE int64_t bitWords() const { return kTileIds * kBlockWords * blocks(); }
  LM_HEAD_HOST_DEVICE int64_t tileWords() const { return bitWords() + kTileIds * kQuadGroups / 2 * quads(); }

  LM_HEAD_HOST_DEVICE int blocksOfChunk(int64_t chunk) const {
    const int64_t left = blocks() - chunk * kChunkBlocks;
    return static_cast<int>(left < kChunkBlocks ? left : kChunkBlocks);
  }

  // Where 8 ids' words of a chunk begin, from the beginning of the tile: (id % 256) / 8 is the part.
  LM_HEAD_HOST_DEVICE int64_t chunkOffset(int64_t chunk, int part) const {
    return chunk * (kTileIds * kBlockWords * kChunkBlocks) + part * kLanes * blocksOfChunk(chunk);
  }

  // Word `word` of an id of the tile.
  LM_HEAD_HOST_DEVICE int64_t wordOffset(int id, int64_t word) const {
    const int64_t block = word / kBlockWords, chunk = block / kChunkBlocks;
    const int lane = id % 8 * 4 + static_cast<int>(word % kBlockWords);
    return chunkOffset(chunk, id / 8) + lane * blocksOfChunk(chunk) + block % kChunkBlocks;
  }

  // The scale of a group of an id of the tile, in 16-bit elements from the beginning of the tile.
  LM_HEAD_HOST_DEVICE int64_t scaleOffset(int id, int64_t group) const {
    return 2 * bitWords() + (group / kQuadGroups * kTileIds + id) * kQuadGroups + group % kQuadGroups;
  }
};

}  // namespace lm_head
