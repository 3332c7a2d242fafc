// A ring of stages in shared memory that a block's warps read a tile's chunks of columns from, with copies some chunks
// ahead: by one warp with bulk copies (compute capability 9.0 and later), or by each warp for itself.
#pragma once

#include "../../../kernels/core/binary_layout.h"
#include "../../ptx/async_copy.cuh"
#include "../../ptx/bulk_copy.cuh"
#include "../sweep.cuh"

namespace lm_head {

// kWarps warps score kUnits units of 16 ids each. kGroup128: groupSize is 128, so that each chunk has its own quad of
// scales. kBulk: warp kWarps copies, and a stage holds kChunks chunks where each has its own quad.
// kTogether: warps that score or skip the last tile's ids as one. kDynamic: the last tiles are dynamic, see Tiling.
template <int kWarps, int kUnits, bool kGroup128, int kStages, bool kBulk, int kChunks = 1, int kTogether = 1,
          bool kDynamic = false>
class BinaryStream {
 public:
  static constexpr bool kBulkCopies = kBulk, kDynamicTiles = kDynamic;
  static constexpr int kWorkers = 32 * kWarps;
  static constexpr int kUnitIds = 16, kWarpIds = kUnits * kUnitIds, kTileUnits = kWarps * kUnits;
  static constexpr int kTileVocab = kTileUnits * kUnitIds,
                       kGranularity = kWarpIds * kTogether > kGroupIds ? kWarpIds *kTogether : kGroupIds;
  static constexpr int kStageChunks = kBulk && kGroup128 ? kChunks : 1;

  // Bulk copies to shared memory that is not 128-byte aligned are slower than memory.
  static __host__ __device__ size_t aligned(size_t bytes) { return (bytes + 127) / 128 * 128; }

  // Behind `before` bytes of what a scorer keeps.
  static __host__ __device__ size_t sharedBytes(const BinaryLayout& layout, size_t before) {
    return aligned(before) + static_cast<size_t>(kStages) * stageBytes(layout) + kBarriers * sizeof(uint64_t) +
           (kStages + 1) / 2 * 2 * sizeof(int);
  }

  __device__ BinaryStream(const SweepParams& sweep, unsigned char* shared, size_t before, int64_t rowBegin)
      : tiling_(sweep.tiling),
        taken_(sweep.topK.pool.taken + rowBegin),
        weight_(static_cast<const unsigned char*>(sweep.args.weight)),
        shared_(shared + aligned(before)) {
    const LmHeadTopKArgs& args = sweep.args;
    const BinaryLayout layout{args.hiddenSize, args.groupSize};
    hiddenSize_ = static_cast<int>(args.hiddenSize);
    groupSize_ = static_cast<int>(args.groupSize);
    blocks_ = static_cast<int>(layout.blocks());
    tileBytes_ = layout.tileWords() * 4;
    stageBytes_ = stageBytes(layout);
    barriers_ = reinterpret_cast<uint64_t*>(shared_ + kStages * stageBytes_);
    index_ = blockIdx.x;
    // Blocks of other rows read the same weights at nearly the same time.
    policy_ = gridDim.y == 1 ? kEvictFirst : kEvictNormal;
  }

  // All threads of the block, before anything else.
  __device__ void start() {
    if constexpr (kBulk) {
      if (threadIdx.x == kWarps * 32) {
        for (int stage = 0; stage < kStages; ++stage) {
          initBarrier(barriers_ + stage, 1);
          initBarrier(barriers_ + kStages + stage, kWarps);
        }
        initBarrier(hiddenBarrier(), 1);
        fenceBarrierInit();
      }
      __syncthreads();
    } else {
      skipForeignTiles();
      for (int stage = 0; stage < kStages - 1; ++stage) copyOwn(stage);
    }
  }

  // The threads behind the warps that score, kBulk: one copies. Hidden, which the kernel in front makes, comes behind
  // no more weights than that takes anyway.
  __device__ void copyAll(unsigned char* hidden, const unsigned char* source, int bytes) {
    if (threadIdx.x != kWarps * 32) return;
    for (int stage = 0; stage < kStagesBeforeHidden && index_ < tiling_.tiles && !takesTile(); ++stage) copyStage();
    waitForPreviousKernel();
    arriveExpecting(hiddenBarrier(), bytes);
    copyBulk(hidden, source, bytes, hiddenBarrier(), kEvictLast);
    while (index_ < tiling_.tiles) copyStage();
    if (!dynamicTiles()) return;
    // There is no further tile.
    waitBarrier(barriers_ + kStages + stage_, parity_ ^ 1);
    tileOfStage()[stage_] = static_cast<int>(tiling_.tiles);
    arrive(barriers_ + stage_);
  }

  // The warps that score, kBulk: until hidden has come.
  __device__ void waitForHidden() const { waitBarrier(hiddenBarrier(), 0); }

  // The warps that score: the block's next tile.
  __device__ int64_t tileAfter(int64_t index) const {
    const int64_t next = index + gridDim.x;
    if (!dynamicTiles() || next < tiling_.firstDynamic) return next;
    waitBarrier(barriers_ + stage_, parity_);
    return tileOfStage()[stage_];
  }

  // Whether this warp, or one of those together with it, has ids in the tile.
  __device__ bool serves(const Tile& tile) const {
    // Read from one lane, so that the compiler knows that whole warps take a branch: warpgroup products need that.
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0);
    const int offset = warp / kTogether * (kWarpIds * kTogether);
    return offset < tile.size && tile.firstId + offset < tiling_.vocabSize;
  }

  // Chunks of a tile, of four blocks but the last.
  __device__ int chunks() const { return (blocks_ + BinaryLayout::kChunkBlocks - 1) / BinaryLayout::kChunkBlocks; }
  __device__ int blocks(int chunk) const { return min(BinaryLayout::kChunkBlocks, blocks_ - chunk * 4); }

  // The next stage, once it has come: kStageChunks chunks of a tile, or what is left of it. `release` must follow.
  __device__ void next() {
    if constexpr (kBulk) {
      waitBarrier(barriers_ + stage_, parity_);
    } else {
      waitForCopies<kStages - 2>();
      __syncwarp();
      copyOwn(stage_ == 0 ? kStages - 1 : stage_ - 1);
    }
  }

  // A chunk's bits, of the stage that has come.
  __device__ const unsigned char* bits(int inStage = 0) const {
    return shared_ + stage_ * stageBytes_ + inStage * kChunkBitBytes;
  }

  // This warp no longer reads the stage.
  __device__ void release() {
    if constexpr (kBulk) {
      __syncwarp();
      if (threadIdx.x % 32 == 0) arrive(barriers_ + kStages + stage_);
    }
    advance();
  }

  // A warp without ids in a tile lets its chunks pass.
  __device__ void skipTile() {
    if constexpr (kBulk) {
      for (int chunk = 0; chunk < chunks(); chunk += kStageChunks) {
        next();
        release();
      }
    }
  }

  // A lane's words of a unit: ids lane / 4 (upper = 0) and lane / 4 + 8 (upper = 1), word lane % 4 of each block.
  template <bool kFull>
  static __device__ void loadWords(const unsigned char* slot, int unit, int upper, int blocks, uint32_t (&out)[4]) {
    const unsigned char* own = slot + (threadIdx.x / 32 * kUnits + unit) * unitStride(blocks);
    loadInterleaved<kFull>(own, upper * 32 + threadIdx.x % 32, blocks, out);
  }

  template <bool kFull>
  static __device__ void loadInterleaved(const void* words, int place, int blocks, uint32_t (&out)[4]) {
    if constexpr (kFull) {
      const uint4 all = static_cast<const uint4*>(words)[place];
      out[0] = all.x, out[1] = all.y, out[2] = all.z, out[3] = all.w;
    } else {
#pragma unroll
      for (int b = 0; b < 4; ++b) out[b] = b < blocks ? static_cast<const uint32_t*>(words)[place * blocks + b] : 0;
    }
  }

  // The scales of a unit's 16 ids, four groups each: of the quad-th quad that has come with the stage.
  __device__ const unsigned char* scales(int unit, int quad) const {
    return shared_ + stage_ * stageBytes_ + kBitBytes +
           (quad * kTileUnits + threadIdx.x / 32 * kUnits + unit) * kUnitQuadBytes;
  }

  // The first quad of scales that comes with a chunk: of the first group that ends in it.
  __device__ int firstQuad(int chunk) const {
    return kGroup128 ? chunk : chunk * kChunkColumns / groupSize_ / BinaryLayout::kQuadGroups;
  }

 private:
  __device__ bool dynamicTiles() const { return kDynamic && tiling_.firstDynamic < tiling_.tiles; }

  static constexpr int kUnitsPerLayoutTile = BinaryLayout::kTileIds / kUnitIds;
  static constexpr int kChunkColumns = 128 * BinaryLayout::kChunkBlocks;
  static constexpr int kUnitBlockBytes = kUnitIds * 16, kUnitQuadBytes = kUnitIds * 8;
  static constexpr int kLayoutBlockBytes = BinaryLayout::kTileIds * 16;
  static constexpr int kLayoutChunkBytes = kLayoutBlockBytes * BinaryLayout::kChunkBlocks;
  static constexpr int kLayoutQuadBytes = kUnitsPerLayoutTile * kUnitQuadBytes;
  static constexpr int kChunkBitBytes = kTileUnits * kUnitBlockBytes * BinaryLayout::kChunkBlocks;
  static constexpr int kBitBytes = kStageChunks * kChunkBitBytes;
  static constexpr int kBarriers = 2 * kStages + 1;
  static constexpr int kStagesBeforeHidden = kStages * kBitBytes <= 40 << 10 ? kStages : (40 << 10) / kBitBytes;

  __device__ uint64_t* hiddenBarrier() const { return barriers_ + 2 * kStages; }
  // [kStages]: the tile that a stage belongs to.
  __device__ int* tileOfStage() const { return reinterpret_cast<int*>(barriers_ + kBarriers); }

  // Bits, then the quads of scales of the groups that end in the chunk.
  static __host__ __device__ int stageBytes(const BinaryLayout& layout) {
    return kBitBytes + maxQuads(layout) * kTileUnits * kUnitQuadBytes;
  }

  static __host__ __device__ int maxQuads(const BinaryLayout& layout) {
    const int groups = static_cast<int>(kChunkColumns / layout.groupSize);
    if (kChunkColumns % layout.groupSize == 0) return kStageChunks * (groups < 4 ? 1 : groups / 4);
    return (groups + 1 + 2 * (BinaryLayout::kQuadGroups - 1)) / BinaryLayout::kQuadGroups;
  }

  // Quads, from `first` on, with the groups that end in a chunk.
  __device__ int quadsOf(int chunk, int first) const {
    if constexpr (kGroup128) return 1;
    const int ended = min((chunk + 1) * kChunkColumns, hiddenSize_) / groupSize_;
    return ended == chunk * kChunkColumns / groupSize_ ? 0 : (ended - 1) / BinaryLayout::kQuadGroups - first + 1;
  }

  // Where a unit of the vocabulary has its bits of a chunk, and its scales of a quad.
  __device__ const unsigned char* bitsAt(int64_t unit, int chunk, int blocks) const {
    return weight_ + unit / kUnitsPerLayoutTile * tileBytes_ + chunk * kLayoutChunkBytes +
           unit % kUnitsPerLayoutTile * (kUnitBlockBytes * blocks);
  }
  __device__ const unsigned char* scalesAt(int64_t unit, int quad) const {
    return weight_ + unit / kUnitsPerLayoutTile * tileBytes_ + blocks_ * kLayoutBlockBytes +
           (quad * kUnitsPerLayoutTile + unit % kUnitsPerLayoutTile) * kUnitQuadBytes;
  }

  // From one unit's bits to the next in a stage. Where each warp copies for itself they have a fixed place, for warps
  // may be at different chunks of the same stage.
  static __device__ int unitStride(int blocks) {
    return kUnitBlockBytes * (kBulk ? blocks : BinaryLayout::kChunkBlocks);
  }

  __device__ void advance() {
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

  // --- kBulk ---

  // One lane: the next stage of the block's tiles. It has a few hundred cycles a chunk, and each copy takes many of
  // them: so the layout makes all bits of a tile one piece, and all scales another.
  __device__ void copyStage() {
    if (chunk_ == 0) findPieces();
    const int chunks = min(kStageChunks, this->chunks() - chunk_);
    const int blocks = min(kStageChunks * BinaryLayout::kChunkBlocks, blocks_ - chunk_ * BinaryLayout::kChunkBlocks);
    const int first = firstQuad(chunk_), quads = kGroup128 ? chunks : quadsOf(chunk_, first);
    uint64_t* full = barriers_ + stage_;
    // Asked for before the wait that follows: the answer takes its time.
    const int64_t next = takesTile() ? takeTile() : endsTile() ? index_ + gridDim.x : index_;
    const bool last = endsTile();
    waitBarrier(full + kStages, parity_ ^ 1);
    tileOfStage()[stage_] = static_cast<int>(index_);
    arriveExpecting(full, (pieces_[0].units + pieces_[1].units) * (kUnitBlockBytes * blocks + kUnitQuadBytes * quads));
    unsigned char* slot = shared_ + stage_ * stageBytes_;
    if (kTileUnits == kUnitsPerLayoutTile && pieces_[0].units == kUnitsPerLayoutTile) {
      copyBulk(slot, pieces_[0].tile + chunk_ * kLayoutChunkBytes, blocks * kLayoutBlockBytes, full, policy_);
      copyBulk(slot + kBitBytes, pieces_[0].tile + blocks_ * kLayoutBlockBytes + first * kLayoutQuadBytes,
               quads * kLayoutQuadBytes, full, policy_);
    } else {
      copyPiece(pieces_[0], 0, slot, chunks, first, quads, full);
      if (pieces_[1].units > 0) copyPiece(pieces_[1], pieces_[0].units, slot, chunks, first, quads, full);
    }
    advance();
    chunk_ = last ? 0 : chunk_ + chunks;
    index_ = next;
  }

  // Whether the stage that is copied next is the last one of its tile; and whether a dynamic tile follows.
  __device__ bool endsTile() const { return chunk_ + kStageChunks >= chunks(); }
  __device__ bool takesTile() const {
    return endsTile() && dynamicTiles() && index_ + gridDim.x >= tiling_.firstDynamic;
  }
  __device__ int64_t takeTile() {
    if (takenHere_ == tiling_.mostDynamic) return tiling_.tiles;
    ++takenHere_;
    return tiling_.firstDynamic + atomicAdd(taken_, 1);
  }

  // Units of one tile of the layout.
  struct Piece {
    const unsigned char* tile;
    int first;  // in that tile
    int units;
  };

  __device__ void copyPiece(const Piece& piece, int at, unsigned char* slot, int chunks, int firstQuad, int quads,
                            uint64_t* full) const {
    for (int i = 0; i < chunks; ++i) {
      const int unitBytes = kUnitBlockBytes * blocks(chunk_ + i);
      copyBulk(slot + i * kChunkBitBytes + at * unitBytes,
               piece.tile + (chunk_ + i) * kLayoutChunkBytes + piece.first * unitBytes, piece.units * unitBytes, full,
               policy_);
    }
    const unsigned char* scales = piece.tile + blocks_ * kLayoutBlockBytes + piece.first * kUnitQuadBytes;
    for (int quad = 0; quad < quads; ++quad) {
      copyBulk(slot + kBitBytes + (quad * kTileUnits + at) * kUnitQuadBytes,
               scales + (firstQuad + quad) * kLayoutQuadBytes, piece.units * kUnitQuadBytes, full, policy_);
    }
  }

  // What to copy of the tile at index_.
  __device__ void findPieces() {
    const Tile tile = tiling_.at(index_);
    const int64_t firstUnit = tile.firstId / kUnitIds, allUnits = (tiling_.vocabSize + kUnitIds - 1) / kUnitIds;
    const int units = static_cast<int>(min(static_cast<int64_t>(tile.size / kUnitIds), allUnits - firstUnit));
    const int first = static_cast<int>(firstUnit % kUnitsPerLayoutTile);
    const unsigned char* layoutTile = weight_ + firstUnit / kUnitsPerLayoutTile * tileBytes_;
    pieces_[0] = {layoutTile, first, min(units, kUnitsPerLayoutTile - first)};
    pieces_[1] = {layoutTile + tileBytes_, 0, units - pieces_[0].units};
  }

  // --- without ---

  __device__ void skipForeignTiles() {
    while (index_ < tiling_.tiles && !serves(tiling_.at(index_))) index_ += gridDim.x;
  }

  // A warp: what it needs itself.
  __device__ void copyOwn(int stage) {
    if (index_ < tiling_.tiles) {
      const int lane = threadIdx.x % 32, warpUnit = threadIdx.x / 32 * kUnits;
      const int64_t firstUnit = tiling_.at(index_).firstId / kUnitIds + warpUnit;
      const int blocks = this->blocks(chunk_), first = firstQuad(chunk_), quads = quadsOf(chunk_, first);
      unsigned char* slot = shared_ + stage * stageBytes_;
#pragma unroll
      for (int u = 0; u < kUnits; ++u) {
        const unsigned char* bits = bitsAt(firstUnit + u, chunk_, blocks);
        const int bytes = kUnitBlockBytes * blocks;
        unsigned char* own = slot + (warpUnit + u) * unitStride(blocks);
        for (int at = lane * 16; at < bytes; at += 32 * 16) copyAsync16(own + at, bits + at);
        const int quad = lane / 8;
        if (quad < quads) {
          copyAsync16(slot + kBitBytes + (quad * kTileUnits + warpUnit + u) * kUnitQuadBytes + lane % 8 * 16,
                      scalesAt(firstUnit + u, first + quad) + lane % 8 * 16);
        }
      }
      if (++chunk_ == chunks()) {
        chunk_ = 0;
        index_ += gridDim.x;
        skipForeignTiles();
      }
    }
    commitCopies();
  }

  const Tiling& tiling_;
  int* taken_;  // dynamic tiles, by all blocks of these rows
  const unsigned char* weight_;
  unsigned char* shared_;
  uint64_t* barriers_;
  int stageBytes_, hiddenSize_, groupSize_, blocks_;
  int64_t tileBytes_;
  // What is copied next.
  int64_t index_;
  int chunk_ = 0;
  // What is read, or, by the warp that copies, written next.
  int stage_ = 0;
  uint32_t parity_ = 0;
  // kBulk: of the warp that copies.
  uint64_t policy_;
  Piece pieces_[2];
  int takenHere_ = 0;
};

}  // namespace lm_head
