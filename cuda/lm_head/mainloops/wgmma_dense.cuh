// What both dense main loops for compute capability 9.0 share: their parameters, and the chunks of columns that they
// read from shared memory.
#pragma once

#include "../../ptx/wgmma_descriptors.cuh"
#include "../prologue/split_hidden.cuh"
#include "../sweep.cuh"

namespace lm_head {

// 16-bit or float32 weights, kRows rows.
template <class Number, int kRows>
class WgmmaMainloop;

struct WgmmaParams {
  CUtensorMap weight;  // boxes of kGroupIds ids x kChunk columns
  CUtensorMap parts;   // boxes of kColumns part columns x kChunk
  const SplitRow* splitRows;
};

// kWarpgroups warpgroups, each a group of 64 ids of the tile against kColumns columns of hi/lo parts, two a row. A
// stage of shared memory holds a chunk: columns that span 128 bytes, a row of TMA's swizzle pattern, of the tile's
// weights and of parts. One thread copies, as far ahead as there are free stages; the workers release them.
template <class Number, int kRowCount, int kWarpgroups, int kStages>
class WgmmaDense : public OwnTiles {
 public:
  using Params = WgmmaParams;
  static constexpr int kRows = kRowCount, kColumns = 2 * kRows, kChunk = 128 / sizeof(Number);
  static constexpr int kTileVocab = kWarpgroups * kGroupIds, kSmallTileVocab = kGroupIds, kUnitIds = 16,
                       kSeedsOf = kRows >= 8 ? kTileVocab : 0;
  static constexpr bool kStartsEarly = true, kDealtTiles = true;
  // Where sums need more registers than an even share, a whole warpgroup of producers gives up its own.
  static constexpr bool kMovesRegisters = kWarpgroups >= 3;
  // Together no more than the block is launched with, or it waits for ever.
  static constexpr int kProducerRegisters = 24, kWorkerRegisters = kWarpgroups == 3 ? 160 : 112;
  static constexpr int kWorkers = kWarpgroups * 128, kThreads = kWorkers + (kMovesRegisters ? 128 : 32);

 private:
  static constexpr int kWeightBytes = kTileVocab * 128, kPartBytes = kColumns * 128;

 protected:
  static constexpr int kStageBytes = kWeightBytes + kPartBytes;

 private:
  static constexpr size_t kBarriersAt = static_cast<size_t>(kStages) * kStageBytes,
                          kSplitRowsAt = kBarriersAt + 2 * kStages * sizeof(uint64_t);

 public:
  static constexpr size_t kSharedBytes = (kSplitRowsAt + kRows * sizeof(SplitRow) + 15) / 16 * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ WgmmaDense(const SweepParams& sweep, const Params& params, unsigned char* shared, int64_t, int)
      : sweep_(sweep), params_(params), shared_(shared) {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        initBarrier(full(stage), 1);
        initBarrier(free(stage), kWorkers / 32);
      }
      fenceBarrierInit();
    }
    __syncthreads();
  }

  __device__ bool serves(int row) const { return !splitRows()[row].needsFp32; }
  __device__ SplitRow* splitRows() const { return reinterpret_cast<SplitRow*>(shared_ + kSplitRowsAt); }

  __device__ void produce() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    const Tiling& tiling = sweep_.tiling;
    if (threadIdx.x != kWorkers || blockIdx.x >= tiling.tiles) return;
    // Weights come before the kernel in front, which makes parts, has ended.
    const int chunks = this->chunks(), early = min(kStages, chunks), firstPart = static_cast<int>(2 * rows().begin);
    for (int chunk = 0; chunk < early; ++chunk) copyWeights(tiling.at(blockIdx.x), chunk, chunk);
    waitForPreviousKernel();
    for (int64_t index = blockIdx.x; index < tiling.tiles; index += gridDim.x) {
      const Tile tile = tiling.at(index);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        if (index != blockIdx.x || chunk >= early) {
          waitBarrier(free(stage()), parity() ^ 1);  // a fresh barrier counts as emptied
          copyWeights(tile, chunk, stage());
        }
        copyTensorBox(partsOf(stage()), &params_.parts, chunk * kChunk, firstPart, full(stage()), kEvictLast);
        advance();
      }
    }
  }

  __device__ void startWork() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kWorkerRegisters));
    waitForPreviousKernel();
    loadSplitRows<kRows>(params_.splitRows + rows().begin, rows().count, splitRows());
    syncWorkers<kWorkers>();
  }

 protected:
  struct Chunk {
    const unsigned char* weights;
    const unsigned char* parts;
  };

  __device__ Chunk chunkAt(int stage) const { return {weightsOf(stage), partsOf(stage)}; }

  // Workers: the stage of the tile's next chunk, once it has come; `release` must follow.
  __device__ int next() {
    waitBarrier(full(stage()), parity());
    return stage();
  }

  // Workers: this warp no longer reads the chunk.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(free(stage()));
    advance();
  }

  // Made anew where they are needed: the sums of many rows leave few registers.
  __device__ const LmHeadTopKArgs& args() const { return sweep_.args; }
  __device__ BlockRows rows() const { return BlockRows::of(sweep_.rowsPerBlock, sweep_.args.rows); }
  __device__ int chunks() const { return static_cast<int>((args().hiddenSize + kChunk - 1) / kChunk); }

 private:
  __device__ unsigned char* weightsOf(int stage) const { return shared_ + stage * kStageBytes; }
  __device__ unsigned char* partsOf(int stage) const { return weightsOf(stage) + kWeightBytes; }
  __device__ uint64_t* full(int stage) const { return reinterpret_cast<uint64_t*>(shared_ + kBarriersAt) + stage; }
  __device__ uint64_t* free(int stage) const { return full(stage) + kStages; }

  // Also tells the stage's barrier of the parts that will follow.
  __device__ void copyWeights(const Tile& tile, int chunk, int stage) const {
    arriveExpecting(full(stage), tile.size * 128 + kPartBytes);
    for (int group = 0; group < tile.size / kGroupIds; ++group) {
      copyTensorBox(weightsOf(stage) + group * kGroupIds * 128, &params_.weight, chunk * kChunk,
                    static_cast<int>(tile.firstId + group * tile.stride), full(stage), kEvictFirst);
    }
  }

  __device__ void advance() {
    if ((++place_ & kStageMask) == kStages) place_ = (place_ & ~kStageMask) ^ (kStageMask + 1);
  }

  // Of what this thread reads or copies next: the stage, and which of two rounds it is in.
  static constexpr int kStageMask = 15;
  static_assert(kStages <= kStageMask, "more stages than a place tells");
  __device__ int stage() const { return place_ & kStageMask; }
  __device__ uint32_t parity() const { return place_ / (kStageMask + 1); }

  const SweepParams& sweep_;
  const Params& params_;
  unsigned char* shared_;
  int place_ = 0;
};

}  // namespace lm_head
