// 16-bit heads on tensor cores, without rounding hidden: each hidden row becomes two columns of 16-bit parts, and a
// score is the sum of two products with the same weights. A product is one fixed chain (see kChunk), whatever the
// batch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../ptx/async_copy.cuh"
#include "../prologue/split_hidden.cuh"
#include "../sweep.cuh"

namespace lm_head {

// Columns between two roundings to a plain fp32 sum: tensor cores truncate, and short chains keep that below the bound.
constexpr int kChunk = 128;

__device__ inline void multiplyAdd(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                   uint32_t b1, __nv_bfloat16) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline void multiplyAdd(float (&sum)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                   uint32_t b1, __half) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// 8 warps, each 16 ids of the tile; kColumnTiles tiles of 8 columns (4 rows, two parts each); kStages chunks in flight.
// Lane (g, t) = (lane / 4, lane % 4) of a warp copies what it multiplies itself, 8 neighbouring columns of ids g and
// g+8 at a time: a dot product may take its columns in any order, so these 8 are its share of two matrix products.
template <class Half, int kColumnTiles, int kStages>
class MmaHalfMainloop : public OwnTiles {
 public:
  using Params = SplitParams;
  static constexpr bool kStartsEarly = false;
  static constexpr int kThreads = 256, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 128, kUnitIds = 16,
                       kSeedsOf = kColumnTiles >= 2 ? kTileVocab : 0;
  static constexpr int kRows = 4 * kColumnTiles;
  static constexpr int kSteps = kChunk / 32;
  static constexpr int kWeightBytes = kTileVocab * kChunk * 2;
  // 64 bytes of padding: two columns, read together, then lie in different banks.
  static constexpr int kPartPitch = kChunk * 2 + 64;
  static constexpr int kStageBytes = kWeightBytes + 8 * kColumnTiles * kPartPitch;
  static constexpr size_t kSharedBytes =
      static_cast<size_t>(kStages) * kStageBytes + ((kRows * sizeof(SplitRow) + 15) / 16) * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ MmaHalfMainloop(const SweepParams& sweep, const Params& params, unsigned char* shared, int64_t rowBegin,
                             int rows)
      : args_(sweep.args), shared_(shared) {
    parts_ = static_cast<const Half*>(params.parts) + 2 * rowBegin * params.partsStride;
    partsStride_ = params.partsStride;
    splitRows_ = reinterpret_cast<SplitRow*>(shared + kStages * kStageBytes);
    loadSplitRows<kRows>(params.splitRows + rowBegin, rows, splitRows_);
    chunks_ = static_cast<int>((args_.hiddenSize + kChunk - 1) / kChunk);
    tiles_ = (args_.vocabSize + kTileVocab - 1) / kTileVocab;
    issueTile_ = blockIdx.x;
    for (int stage = 0; stage < kStages - 1; ++stage) issueNext();
    __syncthreads();
  }

  __device__ void produce() {}
  __device__ void startWork() {}
  __device__ bool serves(int row) const { return !splitRows_[row].needsFp32; }
  __device__ const SplitRow* splitRows() const { return splitRows_; }

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const IdPair ids(args_, tile.firstId + threadIdx.x / 32 * 16);
    float sums[kColumnTiles][4] = {};
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      waitForCopies<kStages - 2>();
      __syncthreads();  // all parts of this chunk have come, and nobody reads the stage that is filled next
      const unsigned char* stage = shared_ + readStage_ * kStageBytes;
      if (++readStage_ == kStages) readStage_ = 0;
      issueNext();
      float products[kColumnTiles][4] = {};
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        const auto* weights = reinterpret_cast<const uint4*>(stage) + 2 * step * kThreads + threadIdx.x;
        const uint4 lower = weights[0], upper = weights[kThreads];
#pragma unroll
        for (int column = 0; column < kColumnTiles; ++column) {
          const uint4 part = *reinterpret_cast<const uint4*>(stage + kWeightBytes + (column * 8 + g) * kPartPitch +
                                                             step * 64 + t * 16);
          multiplyAdd(products[column], lower.x, upper.x, lower.y, upper.y, part.x, part.y, Half());
          multiplyAdd(products[column], lower.z, upper.z, lower.w, upper.w, part.z, part.w, Half());
        }
      }
#pragma unroll
      for (int column = 0; column < kColumnTiles; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[column][i] += products[column][i];
      }
    }
    float scores[kColumnTiles][2];
#pragma unroll
    for (int column = 0; column < kColumnTiles; ++column) {
      scores[column][0] = joinParts<Half>(sums[column][0], sums[column][1]);
      scores[column][1] = joinParts<Half>(sums[column][2], sums[column][3]);
    }
    emitSplit(reductions, splitRows_, ids, scores, threadIdx.x / 32);
  }

 private:
  // Starts the copies of the next chunk of this block's walk over tiles; commits an empty group behind the last one.
  __device__ void issueNext() {
    if (issueTile_ < tiles_) {
      unsigned char* stage = shared_ + issueStage_ * kStageBytes;
      const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
      const int64_t id = issueTile_ * kTileVocab + threadIdx.x / 32 * 16 + g;
      const int64_t column = static_cast<int64_t>(issueChunk_) * kChunk + 8 * t;
      const Half* weight = static_cast<const Half*>(args_.weight);
      auto* weights = reinterpret_cast<uint4*>(stage) + threadIdx.x;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const bool valid = id + 8 * upper < args_.vocabSize && column + 32 * step < args_.weightRowStride;
          const Half* source = valid ? weight + (id + 8 * upper) * args_.weightRowStride + column + 32 * step : weight;
          copyAsync16(weights + (2 * step + upper) * kThreads, source, valid);
        }
      }
      constexpr int kPiecesPerColumn = kChunk * 2 / 16;
      for (int piece = threadIdx.x; piece < 8 * kColumnTiles * kPiecesPerColumn; piece += kThreads) {
        const int part = piece / kPiecesPerColumn, offset = piece % kPiecesPerColumn;
        copyAsync16(stage + kWeightBytes + part * kPartPitch + offset * 16,
                    parts_ + part * partsStride_ + static_cast<int64_t>(issueChunk_) * kChunk + offset * 8);
      }
      if (++issueStage_ == kStages) issueStage_ = 0;
      if (++issueChunk_ == chunks_) {
        issueChunk_ = 0;
        issueTile_ += gridDim.x;
      }
    }
    commitCopies();
  }

  const LmHeadTopKArgs& args_;
  unsigned char* shared_;
  const Half* parts_;
  int64_t partsStride_;
  SplitRow* splitRows_;
  int chunks_;
  int64_t tiles_;
  int64_t issueTile_;
  int issueChunk_ = 0;
  int issueStage_ = 0;
  int readStage_ = 0;
};

}  // namespace lm_head
