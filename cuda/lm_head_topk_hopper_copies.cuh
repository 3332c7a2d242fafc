// What both dense scorers for compute capability 9.0 share: their parameters, and the chunks of columns that they read
// from shared memory.
#pragma once

#include "common/hopper.cuh"
#include "lm_head_topk_split.cuh"

namespace lm_head {

struct HopperScorerParams {
  CUtensorMap weight;  // boxes of kSmallTileVocab ids x kChunk columns
  CUtensorMap parts;   // boxes of kPartBox part columns x kChunk
  const SplitRow* splitRows;
};

// A stage of shared memory holds a chunk: kChunkColumns columns, which span 128 bytes, a row of the copy engine's
// swizzle pattern, of a tile's weights and of kColumns columns of parts, two a row. One thread copies weights and
// another one parts, as far ahead as there are free stages; the workers release them. The blocks of a cluster, up to
// kMaxCluster, are at the same parts at nearly the same time: each copies its share of them to all, which spares
// reading them from L2 for each block.
template <int kChunkColumns, int kTile, int kColumns, int kStages, int kWorkerThreads, int kHelperThreads,
          int kMaxCluster>
class HopperScorerBase {
 public:
  using Params = HopperScorerParams;
  static constexpr bool kStartsEarly = true;
  static constexpr int kWorkers = kWorkerThreads, kThreads = kWorkers + kHelperThreads;
  static constexpr int kTileVocab = kTile, kSmallTileVocab = 128;
  static constexpr int kRows = kColumns / 2, kChunk = kChunkColumns;
  static constexpr int kCluster = kMaxCluster, kPartBox = kColumns / kCluster;

 private:
  static constexpr int kWeightBytes = kTileVocab * 128, kPartBytes = kColumns * 128;
  static constexpr int kStageBytes = kWeightBytes + kPartBytes;
  static constexpr size_t kBarriersAt = static_cast<size_t>(kStages) * kStageBytes,
                          kSplitRowsAt = kBarriersAt + 3 * kStages * sizeof(uint64_t);

 public:
  static constexpr size_t kSharedBytes = (kSplitRowsAt + kRows * sizeof(SplitRow) + 15) / 16 * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ HopperScorerBase(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
                              int rows)
      : args_(scan.args),
        rowBegin_(rowBegin),
        rows_(rows),
        splitRows_(reinterpret_cast<SplitRow*>(shared + kSplitRowsAt)),
        chunks_(static_cast<int>((scan.args.hiddenSize + kChunk - 1) / kChunk)),
        scan_(scan),
        params_(params),
        shared_(shared) {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        initBarrier(full(stage), 2);
        initBarrier(weightsFree(stage), kWorkers / 32);
        if (kCluster > 1) initBarrier(partsFree(stage), scan_.cluster * (kWorkers / 32));
      }
      fenceBarrierInit();
    }
    if constexpr (kCluster > 1) {
      syncCluster();
    } else {
      __syncthreads();
    }
  }

  // No block leaves while another of its cluster may still arrive at its barriers.
  __device__ ~HopperScorerBase() {
    if constexpr (kCluster > 1) syncCluster();
  }

  __device__ bool serves(int row) const { return !splitRows_[row].plain; }
  __device__ const SplitRow* splitRows() const { return splitRows_; }

  __device__ void assist(const Tiling& tiling) {
    if (threadIdx.x == kWorkers) copyWeights(tiling);
    if (threadIdx.x == kWorkers + 32) {
      waitForPreviousKernel();
      copyParts(tiling);
    }
  }

  __device__ void startWork() {
    for (int row = threadIdx.x; row < rows_; row += kWorkers) splitRows_[row] = params_.splitRows[rowBegin_ + row];
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
    const int lane = threadIdx.x % 32;
    if (lane == 0) arrive(weightsFree(stage_));
    if constexpr (kCluster > 1) {
      if (lane < scan_.cluster) arriveAt(partsFree(stage_), lane);
    }
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
  __device__ uint64_t* weightsFree(int stage) const { return full(stage) + kStages; }
  // Without a cluster, the same workers release both.
  __device__ uint64_t* partsFree(int stage) const { return weightsFree(stage) + (kCluster > 1 ? kStages : 0); }

  // work(tile, column) for every chunk of the block's tiles.
  template <class Work>
  __device__ void forEachChunk(const Tiling& tiling, Work work) {
    for (int64_t index = blockIdx.x; index < tiling.tiles; index += gridDim.x) {
      const Tile tile = tiling.at(index);
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        work(tile, chunk * kChunk);
        advance();
      }
    }
  }

  // One thread.
  __device__ void copyWeights(const Tiling& tiling) {
    forEachChunk(tiling, [&](const Tile& tile, int column) {
      waitBarrier(weightsFree(stage_), parity_ ^ 1);  // a fresh barrier counts as emptied
      arriveExpecting(full(stage_), tile.size * 128);
      for (int box = 0; box < tile.size; box += kSmallTileVocab) {
        copyTensorBox(weightsOf(stage_) + box * 128, &params_.weight, column, static_cast<int>(tile.firstId) + box,
                      full(stage_), kEvictFirst);
      }
    });
  }

  // One thread.
  __device__ void copyParts(const Tiling& tiling) {
    const int first = static_cast<int>(2 * rowBegin_);
    forEachChunk(tiling, [&](const Tile&, int column) {
      waitBarrier(partsFree(stage_), parity_ ^ 1);
      arriveExpecting(full(stage_), kPartBytes);
      if constexpr (kCluster == 1) {
        copyTensorBox(partsOf(stage_), &params_.parts, column, first, full(stage_), kEvictLast);
      } else {
        for (int part = clusterRank() * kPartBox; part < kColumns; part += scan_.cluster * kPartBox) {
          copyTensorBox(partsOf(stage_) + part * 128, &params_.parts, column, first + part, full(stage_), kEvictLast,
                        static_cast<uint16_t>((1 << scan_.cluster) - 1));
        }
      }
    });
  }

  __device__ void advance() {
    if (++stage_ == kStages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

  const ScanParams& scan_;
  const Params& params_;
  unsigned char* shared_;
  // What this thread reads or copies next.
  int stage_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace lm_head
