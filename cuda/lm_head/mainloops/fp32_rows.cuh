// Plain arithmetic without shared memory, one row at a time: for rows that another scorer leaves (see SplitRow), which
// are rare, and for hidden rows that shared memory cannot hold. The chain of a dot product is that of PlainScorer.
#pragma once

#include "fp32.cuh"

namespace lm_head {

template <class Load, int kThreadCount>
class PlainRowsScorer : public OwnTiles {
 public:
  static constexpr bool kStartsEarly = false;
  struct Params {
    // Of the block's rows, of which only those that say `plain` are served; null: all are.
    const SplitRow* splitRows;
  };
  static constexpr int kThreads = kThreadCount, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 128;

  __device__ size_t sharedBytes() const { return 0; }

  __device__ PlainRowsScorer(const ScanParams& scan, const Params& params, unsigned char*, int64_t rowBegin, int rows)
      : args_(scan.args), splitRows_(params.splitRows), rowBegin_(rowBegin), rows_(rows) {}

  __device__ void assist(const Tiling&) {}
  __device__ void startWork() {}
  __device__ bool serves(int row) const { return splitRows_ == nullptr || splitRows_[row].plain; }

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int64_t end = min(tile.firstId + tile.size, args_.vocabSize);
    for (int64_t id = tile.firstId + threadIdx.x / 32 * kPlainIds; id < end; id += kThreads / 32 * kPlainIds) {
      for (int row = 0; row < rows_; ++row) {
        if (serves(row)) score(row, id, end, lists, logSums);
      }
    }
  }

 private:
  // A warp scores kPlainIds ids from `firstId` on, as far as they lie before `end`.
  __device__ void score(int row, int64_t firstId, int64_t end, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int lane = threadIdx.x % 32;
    const float* hidden = args_.hidden + (rowBegin_ + row) * args_.hiddenSize;
    float sums[kPlainIds] = {};
    for (int64_t column = 4 * lane; column < args_.hiddenSize; column += kPlainChunk) {
      const int64_t left = args_.hiddenSize - column;
      const float4 four = {hidden[column], left > 1 ? hidden[column + 1] : 0.0f, left > 2 ? hidden[column + 2] : 0.0f,
                           left > 3 ? hidden[column + 3] : 0.0f};
#pragma unroll
      for (int i = 0; i < kPlainIds; ++i) {
        addProducts(sums[i], Load::load(args_, min(firstId + i, end - 1), column), four);
      }
    }
    LogSum logSum = LogSum::empty();
#pragma unroll
    for (int i = 0; i < kPlainIds; ++i) {
      const float sum = sumOfWarp(sums[i]);
      if (lane != 0 || firstId + i >= end) continue;
      const float score = finishScore(sum, args_.bias, firstId + i);
      lists.offer(row, score, static_cast<uint32_t>(firstId + i));
      if (logSums.wanted()) logSum = logSum + LogSum::of(score);
    }
    if (logSums.wanted() && lane == 0) logSums.add(row, logSum);
  }

  const LmHeadTopKArgs& args_;
  const SplitRow* splitRows_;
  int64_t rowBegin_;
  int rows_;
};

}  // namespace lm_head
