// fp32 arithmetic without shared memory, one row at a time: for rows that another main loop leaves (see SplitRow),
// which are rare, and for hidden rows that shared memory cannot hold. The chain of a dot product is that of
// Fp32Mainloop.
#pragma once

#include "fp32.cuh"

namespace lm_head {

template <class Load, int kThreadCount>
class Fp32RowsMainloop : public OwnTiles {
 public:
  static constexpr bool kStartsEarly = false;
  struct Params {
    // Of the block's rows, of which only those that need fp32 are served; null: all are.
    const SplitRow* splitRows;
  };
  static constexpr int kThreads = kThreadCount, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 64,
                       kUnitIds = 16, kSeedsOf = 0;

  __device__ size_t sharedBytes() const { return 0; }

  __device__ Fp32RowsMainloop(const SweepParams& sweep, const Params& params, unsigned char*, int64_t rowBegin,
                              int rows)
      : args_(sweep.args), splitRows_(params.splitRows), rowBegin_(rowBegin), rows_(rows) {}

  __device__ void produce() {}
  __device__ void startWork() {}
  __device__ bool serves(int row) const { return splitRows_ == nullptr || splitRows_[row].needsFp32; }

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    constexpr int kWarps = kThreads / 32;
    const int units = tile.size / kUnitIds;
    // The same number of fragments in each warp.
    for (int first = 0; first < units; first += kWarps) {
      const int unit = first + threadIdx.x / 32;
      const int64_t firstId = tile.id(unit * kUnitIds);
      const bool idle = unit >= units || firstId >= args_.vocabSize;
      const IdPair ids = idle ? IdPair() : IdPair(args_, firstId);
      for (int row = 0; row < rows_; ++row) {
        if (!serves(row)) continue;
        float sums[1][2] = {};
        if (!idle) sumUp(row, firstId, sums[0]);
        reductions.emitFragment(
            ids, sums, unit < units ? unit : kNoUnit,
            [row](int other) {
              return RowFinish{1.0f, other == row};
            },
            row / 4 * 4);
      }
    }
  }

 private:
  // A warp: the sums of 16 ids, to the lanes of a fragment.
  __device__ void sumUp(int row, int64_t firstId, float (&own)[2]) {
    const int lane = threadIdx.x % 32, g = lane / 4;
    const float* hidden = args_.hidden + (rowBegin_ + row) * args_.hiddenSize;
#pragma unroll
    for (int quad = 0; quad < kUnitIds / kFp32Ids; ++quad) {
      float sums[kFp32Ids] = {};
      for (int64_t column = 4 * lane; column < args_.hiddenSize; column += kFp32Chunk) {
        const int64_t left = args_.hiddenSize - column;
        const float4 four = {hidden[column], left > 1 ? hidden[column + 1] : 0.0f, left > 2 ? hidden[column + 2] : 0.0f,
                             left > 3 ? hidden[column + 3] : 0.0f};
#pragma unroll
        for (int i = 0; i < kFp32Ids; ++i) {
          const int64_t id = min(firstId + quad * kFp32Ids + i, args_.vocabSize - 1);
          addProducts(sums[i], Load::load(args_, id, column), four);
        }
      }
#pragma unroll
      for (int i = 0; i < kFp32Ids; ++i) {
        const float sum = sumOfWarp(sums[i]);
        if (g == quad % 2 * kFp32Ids + i) own[quad / 2] = sum;
      }
    }
  }

  const LmHeadTopKArgs& args_;
  const SplitRow* splitRows_;
  int64_t rowBegin_;
  int rows_;
};

}  // namespace lm_head
