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
  static constexpr bool kMovesRegisters = kWarpgroups == 4;
  // Together no more than the block is launched with, or it waits for ever.
  static constexpr int kProducerRegisters = 24, kWorkerRegisters = 112;
  static constexpr int kWorkers = kWarpgroups * 128, kThreads = kWorkers + (kMovesRegisters ? 128 : 32);

 private:
  static constexpr int kWeightBytes = kTileVocab * 128, kPartBytes = kColumns * 128;
  static constexpr int kStageBytes = kWeightBytes + kPartBytes;
  static constexpr size_t kBarriersAt = static_cast<size_t>(kStages) * kStageBytes,
                          kSplitRowsAt = kBarriersAt + 2 * kStages * sizeof(uint64_t);

 public:
  static constexpr size_t kSharedBytes = (kSplitRowsAt + kRows * sizeof(SplitRow) + 15) / 16 * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ WgmmaDense(const SweepParams& sweep, const Params& params, unsigned char* shared, int64_t rowBegin,
                        int rows)
      : args_(sweep.args),
        rowBegin_(rowBegin),
        rows_(rows),
        splitRows_(reinterpret_cast<SplitRow*>(shared + kSplitRowsAt)),
        chunks_(static_cast<int>((sweep.args.hiddenSize + kChunk - 1) / kChunk)),
        tiling_(sweep.tiling),
        params_(params),
        shared_(shared) {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        initBarrier(full(stage), 1);
        initBarrier(free(stage), kWorkers / 32);
      }
      fenceBarrierInit();
    }
    __syncthreads();
  }

  __device__ bool serves(int row) const { return !splitRows_[row].needsFp32; }
  __device__ const SplitRow* splitRows() const { return splitRows_; }

  __device__ void produce() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x != kWorkers || blockIdx.x >= tiling_.tiles) return;
    // Weights come before the kernel in front, which makes parts, has ended.
    const int early = min(kStages, chunks_);
    for (int chunk = 0; chunk < early; ++chunk) copyWeights(tiling_.at(blockIdx.x), chunk, chunk);
    waitForPreviousKernel();
    for (int64_t index = blockIdx.x; index < tiling_.tiles; index += gridDim.x) {
      const Tile tile = tiling_.at(index);
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        if (index != blockIdx.x || chunk >= early) {
          waitBarrier(free(stage_), parity_ ^ 1);  // a fresh barrier counts as emptied
          copyWeights(tile, chunk, stage_);
        }
        copyTensorBox(partsOf(stage_), &params_.parts, chunk * kChunk, static_cast<int>(2 * rowBegin_), full(stage_),
                      kEvictLast);
        advance();
      }
    }
  }

  __device__ void startWork() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kWorkerRegisters));
    waitForPreviousKernel();
    loadSplitRows<kRows>(params_.splitRows + rowBegin_, rows_, splitRows_);
    syncWorkers<kWorkers>();
  }

 protected:
  struct Chunk {
    const unsigned char* weights;
    const unsigned char* parts;
  };

  // Workers: the next chunk of the tile, once it has come; `release` must follow.
  __device__ Chunk next() {
    waitBarrier(full(stage_), parity_);
    return {weightsOf(stage_), partsOf(stage_)};
  }

  // Workers: this warp no longer reads the chunk.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(free(stage_));
    advance();
  }

  const LmHeadTopKArgs& args_;
  int64_t rowBegin_;
  int rows_;
  SplitRow* splitRows_;
  int chunks_;

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
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

  const Tiling& tiling_;
  const Params& params_;
  unsigned char* shared_;
  // What this thread reads or copies next.
  int stage_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace lm_head
