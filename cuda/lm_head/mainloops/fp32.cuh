// Dense heads in plain fp32 arithmetic: float32 where there is nothing better, and hidden rows that tensor cores cannot
// serve exactly (see SplitRow). A dot product is one fixed chain: lane l of a warp takes columns 128c + 4l .. +3 of
// every chunk c, in order.
#pragma once

#include "loads.cuh"
#include "../sweep.cuh"
#include "../prologue/split_hidden.cuh"

namespace lm_head {

// Ids that a warp takes at a time, so that hidden is read once for all of them.
constexpr int kPlainIds = 4;
constexpr int kPlainChunk = 128;

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
class PlainScorer : public OwnTiles {
 public:
  struct Params {};
  static constexpr bool kStartsEarly = false;
  static constexpr int kThreads = 512, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 128;

  // Hidden rows are padded with zeros to whole chunks.
  static __host__ __device__ size_t sharedBytes(int64_t hiddenSize) {
    return static_cast<size_t>(kRows) * paddedSize(hiddenSize) * sizeof(float);
  }
  __device__ size_t sharedBytes() const { return sharedBytes(args_.hiddenSize); }

  __device__ PlainScorer(const ScanParams& scan, const Params&, unsigned char* shared, int64_t rowBegin, int rows)
      : args_(scan.args),
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

  __device__ void assist(const Tiling&) {}
  __device__ void startWork() {}
  __device__ bool serves(int) const { return true; }

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int lane = threadIdx.x % 32;
    constexpr int kIdsPerPass = kThreads / 32 * kPlainIds;
    for (int pass = 0; pass < kTileVocab / kIdsPerPass; ++pass) {
      const int64_t firstId = tile.firstId + pass * kIdsPerPass + threadIdx.x / 32 * kPlainIds;
      if (firstId >= args_.vocabSize) break;
      float sums[kPlainIds][kRows] = {};
#pragma unroll 2
      for (int64_t column = 4 * lane; column < padded_; column += kPlainChunk) {
        float4 weights[kPlainIds];
#pragma unroll
        for (int i = 0; i < kPlainIds; ++i) {
          // The last ids of the vocabulary are read again in place of those behind it.
          weights[i] = Load::load(args_, min(firstId + i, args_.vocabSize - 1), column);
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const float4 hidden = *reinterpret_cast<const float4*>(hidden_ + row * padded_ + column);
#pragma unroll
          for (int i = 0; i < kPlainIds; ++i) addProducts(sums[i][row], weights[i], hidden);
        }
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        LogSum logSum = LogSum::empty();
#pragma unroll
        for (int i = 0; i < kPlainIds; ++i) {
          const float sum = sumOfWarp(sums[i][row]);
          if (lane != row || row >= rows_ || firstId + i >= args_.vocabSize) continue;
          const float score = finishScore(sum, args_.bias, firstId + i);
          lists.offer(row, score, static_cast<uint32_t>(firstId + i));
          if (logSums.wanted()) logSum = logSum + LogSum::of(score);
        }
        if (logSums.wanted() && lane == row && row < rows_) logSums.add(row, logSum);
      }
    }
  }

 private:
  static __host__ __device__ int64_t paddedSize(int64_t hiddenSize) {
    return (hiddenSize + kPlainChunk - 1) / kPlainChunk * kPlainChunk;
  }

  const LmHeadTopKArgs& args_;
  float* hidden_;
  int rows_;
  int64_t padded_;
};

}  // namespace lm_head
