// The ring of chunks in shared memory that both scorers for compute capability 9.0 read: one thread fills it with bulk
// tensor copies, as far ahead as there are free stages; the workers empty it.
#pragma once

#include "common/hopper.cuh"
#include "lm_head_topk_scan.cuh"

namespace lm_head {

// kChunk columns span 128 bytes, a row of the copy engine's swizzle pattern. kWorkers threads read every chunk.
template <int kChunk, int kTileVocab, int kSmallTileVocab, int kColumns, int kStages, int kWorkers>
class ChunkRing {
 public:
  static constexpr int kWeightBytes = kTileVocab * 128, kPartBytes = kColumns * 128;
  static constexpr int kStageBytes = kWeightBytes + kPartBytes;
  static constexpr size_t kSharedBytes = static_cast<size_t>(kStages) * kStageBytes + 2 * kStages * sizeof(uint64_t);

  // One thread; a barrier of the block must follow.
  __device__ void init() {
    for (int stage = 0; stage < kStages; ++stage) {
      initBarrier(full() + stage, 1);
      initBarrier(empty() + stage, kWorkers / 32);
    }
    fenceBarrierInit();
  }

  // One thread: copies all chunks of all tiles of this block.
  __device__ void fill(const CUtensorMap* weight, const CUtensorMap* parts, int64_t firstPart, const Tiling& tiling,
                       int chunks) {
    int stage = 0;
    uint32_t parity = 1;  // a fresh barrier counts as emptied
    for (int64_t index = blockIdx.x; index < tiling.tiles; index += gridDim.x) {
      const Tile tile = tiling.at(index);
      for (int chunk = 0; chunk < chunks; ++chunk) {
        waitBarrier(empty() + stage, parity);
        unsigned char* memory = shared + stage * kStageBytes;
        arriveExpecting(full() + stage, tile.size * 128 + kPartBytes);
        for (int box = 0; box < tile.size; box += kSmallTileVocab) {
          copyTensorBox(memory + box * 128, weight, chunk * kChunk, static_cast<int>(tile.firstId) + box,
                        full() + stage, kEvictFirst);
        }
        copyTensorBox(memory + kWeightBytes, parts, chunk * kChunk, static_cast<int>(firstPart), full() + stage,
                      kEvictLast);
        advance(stage, parity);
      }
    }
  }

  // Workers: the next chunk, once it has come.
  __device__ const unsigned char* next() {
    waitBarrier(full() + stage_, parity_);
    current_ = stage_;
    const unsigned char* memory = shared + stage_ * kStageBytes;
    advance(stage_, parity_);
    return memory;
  }

  // The stage of the last `next`.
  __device__ int current() const { return current_; }

  // Workers: this warp no longer reads the stage.
  __device__ void release(int stage) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive(empty() + stage);
  }

  unsigned char* shared;

 private:
  __device__ uint64_t* full() const { return reinterpret_cast<uint64_t*>(shared + kStages * kStageBytes); }
  __device__ uint64_t* empty() const { return full() + kStages; }

  static __device__ void advance(int& stage, uint32_t& parity) {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  int stage_ = 0;
  int current_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace lm_head
