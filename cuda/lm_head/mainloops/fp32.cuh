// Dense heads in fp32 arithmetic: float32 where there is nothing better, and hidden rows that tensor cores cannot
// serve exactly (see SplitRow). A dot product is one fixed chain: lane l of a warp takes columns 128c + 4l .. +3 of
// every chunk c, in order.
#pragma once

#include "../prologue/split_hidden.cuh"
#include "../sweep.cuh"
#include "loads.cuh"

namespace lm_head {

// Ids that a warp takes at a time, so that hidden is read once for all of them.
constexpr int kFp32Ids = 4;
constexpr int kFp32Chunk = 128;

// One link of the chain: four columns.
__device__ inline void addProducts(float& sum, const float4& weights, const float4& hidden) {
  float product = weights.x * hidden.x;
  product = fmaf(weights.y, hidden.y, product);
  product = fmaf(weights.z, hidden.z, product);
  product = fmaf(weights.w, hidden.w, product);
  sum += product;
}

__device__ inline float sumOfWarp(float sum) {
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return sum;
}

// 16 warps, with the block's hidden rows in shared memory.
template <class Load, int kRows>
class Fp32Mainloop : public OwnTiles {
 public:
  struct Params {};
  static constexpr bool kStartsEarly = false;
  static constexpr int kThreads = 512, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 64, kUnitIds = kFp32Ids,
                       kSeedsOf = 0;

  // Hidden rows are padded with zeros to whole chunks.
  static __host__ __device__ size_t sharedBytes(int64_t hiddenSize) {
    return static_cast<size_t>(kRows) * paddedSize(hiddenSize) * sizeof(float);
  }
  __device__ size_t sharedBytes() const { return sharedBytes(args_.hiddenSize); }

  __device__ Fp32Mainloop(const SweepParams& sweep, const Params&, unsigned char* shared, int64_t rowBegin, int rows)
      : args_(sweep.args),
        hidden_(reinterpret_cast<float*>(shared)),
        rows_(rows),
        padded_(paddedSize(args_.hiddenSize)) {
    for (int64_t i = threadIdx.x; i < kRows * padded_; i += kThreads) {
      const int64_t row = i / padded_, column = i % padded_;
      const bool real = row < rows && column < args_.hiddenSize;
      hidden_[i] = real ? args_.hidden[(rowBegin + row) * args_.hiddenSize + column] : 0.0f;
    }
    __syncthreads();
  }

  __device__ void produce() {}
  __device__ void startWork() {}
  __device__ bool serves(int) const { return true; }

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int kIdsPerPass = kThreads / 32 * kFp32Ids, kPairs = (kRows + 3) / 4;
    for (int pass = 0; pass < tile.size / kIdsPerPass; ++pass) {
      const int64_t firstId = tile.firstId + pass * kIdsPerPass + warp * kFp32Ids;
      float sums[kFp32Ids][kRows] = {};
#pragma unroll 2
      for (int64_t column = 4 * lane; column < padded_; column += kFp32Chunk) {
        float4 weights[kFp32Ids];
#pragma unroll
        for (int i = 0; i < kFp32Ids; ++i) {
          // The last ids of the vocabulary are read again in place of those behind it.
          weights[i] = Load::load(args_, min(firstId + i, args_.vocabSize - 1), column);
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const float4 hidden = *reinterpret_cast<const float4*>(hidden_ + row * padded_ + column);
#pragma unroll
          for (int i = 0; i < kFp32Ids; ++i) addProducts(sums[i][row], weights[i], hidden);
        }
      }
      float own[kPairs][2] = {};
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
#pragma unroll
        for (int i = 0; i < kFp32Ids; ++i) {
          const float sum = sumOfWarp(sums[i][row]);
          if (lane == 4 * i + row % 4) own[row / 4][0] = sum;
        }
      }
      reductions.emitFragment(IdPair(args_, firstId, kFp32Ids), own, pass * (kThreads / 32) + warp, [](int) {
        return RowFinish{1.0f, true};
      });
    }
  }

 private:
  static __host__ __device__ int64_t paddedSize(int64_t hiddenSize) {
    return (hiddenSize + kFp32Chunk - 1) / kFp32Chunk * kFp32Chunk;
  }

  const LmHeadTopKArgs& args_;
  float* hidden_;
  int rows_;
  int64_t padded_;
};

}  // namespace lm_head
