// From a main loop's sums to scores, and on to what is kept of them.
#pragma once

#include "reductions/log_sum_exp.cuh"
#include "reductions/top_k.cuh"

namespace lm_head {

// The last steps of every score.
__device__ inline float finishScore(float sum, float rowScale, float bias) {
  return __fadd_rn(__fmul_rn(sum, rowScale), bias);
}

// What a row's sums are multiplied by, and whether it is scored here at all.
struct RowFinish {
  float scale;
  bool scored;
};

// What a block keeps of its scores.
template <class Mainloop>
class Reductions {
 public:
  static constexpr int kThreads = Mainloop::kWorkers;
  using Best = TopK<kThreads, Mainloop::kSeedsOf>;
  using LogSums = LogSumExp<kThreads, Mainloop::kUnitIds>;

  __device__ Reductions(Best& topK, LogSums& logSumExp, int rows) : topK(topK), logSumExp(logSumExp), rows_(rows) {}

  // All workers, together: makes scores of a fragment's sums by what finishOf(row) says and bias, and keeps what is
  // wanted of them. `unit`: the fragment's place in the tile, or kNoUnit. `firstRow`: of its rows, among the block's.
  template <int kPairs, class FinishOf>
  __device__ void emitFragment(const IdPair& ids, float (&sums)[kPairs][2], int unit, FinishOf finishOf,
                               int firstRow = 0) {
    const int t = threadIdx.x % 4;
    uint32_t scored = 0, scoredRows = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int row = firstRow + 4 * i + t;
      const RowFinish finish = row < rows_ ? finishOf(row) : RowFinish{0.0f, false};
      scoredRows |= static_cast<uint32_t>(finish.scored) << i;
#pragma unroll
      for (const int half : {0, 1}) {
        const float score = finishScore(sums[i][half], finish.scale, ids.bias[half]);
        const bool isScored = finish.scored && ids.scored[half];
        scored |= static_cast<uint32_t>(isScored) << (2 * i + half);
        sums[i][half] = isScored ? score : -INFINITY;
      }
    }
    topK.raiseThresholds(ids, sums, scored);
    uint32_t candidates = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float least = scoredRows >> i & 1 ? topK.leastScore(firstRow + 4 * i + t) : 0.0f;
      // Nearly never; but always for NaN.
#pragma unroll
      for (const int half : {0, 1}) candidates |= static_cast<uint32_t>(!(sums[i][half] < least)) << (2 * i + half);
    }
    if (logSumExp.wanted() && unit != kNoUnit) logSumExp.add(sums, unit, firstRow, scoredRows);
    topK.offer(ids, sums, scored, candidates & scored, firstRow);
  }

  Best& topK;
  LogSums& logSumExp;

 private:
  const int rows_;
};

}  // namespace lm_head
