// From a main loop's sums to scores, and on to what is kept of them.
#pragma once

#include "../../kernels/core/finish.h"
#include "options.cuh"
#include "reductions/log_sum_exp.cuh"
#include "reductions/top_k.cuh"

namespace lm_head {

// Where a sweep over a few ids writes their sums, and nothing else happens to them: of row r, ids r * count to (r + 1)
// * count - 1.
struct SumsOut {
  float* sums;  // of row r from r * stride on
  int count;
  int64_t stride;
};

// What one launch of the sweep is given, beside what its main loop needs.
struct SweepParams {
  LmHeadTopKArgs args;
  Tiling tiling;
  int rowsPerBlock;  // blockIdx.y serves rows from blockIdx.y * rowsPerBlock on
  TopKParams topK;
  LogSumExpParams logSumExp;
  RankTargets targets;
  SumsOut sumsOut;
};

// What a row's sums are multiplied by, and whether it is scored here at all.
struct RowFinish {
  float scale;
  bool scored;
};

// What a kernel does with scores. The plain one has neither options nor anything to keep but top k and log-sum-exp: a
// kernel of its own, for registers are few while there are many rows.
enum class Epilogue { kPlain, kWithOptions };

// What a block keeps of its scores. Views of it are made anew where they are needed, for between tiles products need
// the registers.
template <class Mainloop, Epilogue kEpilogue>
class Reductions {
 public:
  static constexpr bool kOptions = kEpilogue == Epilogue::kWithOptions;
  static constexpr int kThreads = Mainloop::kWorkers;
  using Best = TopK<kThreads, Mainloop::kSeedsOf>;
  using LogSums = LogSumExp<kThreads, Mainloop::kTileVocab, Mainloop::kUnitIds>;

  __device__ Reductions(const SweepParams& params, unsigned char* shared) : params_(params), shared_(shared) {}

  __device__ BlockRows rows() const { return BlockRows::of(params_.rowsPerBlock, params_.args.rows); }
  __device__ Best topK() const { return Best(params_.topK, shared_, rows()); }
  __device__ bool wantsLogSums() const { return params_.logSumExp.terms != nullptr; }
  __device__ LogSums logSums() const {
    const int sharedKeys = params_.topK.lists == nullptr ? params_.topK.listCapacity : 0;
    return LogSums(params_.logSumExp, shared_ + Best::sharedBytes(params_.rowsPerBlock, sharedKeys), rows());
  }

  // All workers, together: makes scores of a fragment's sums by what finishOf(row) says and bias, and keeps what is
  // wanted of them. `unit`: the fragment's place in the tile, or kNoUnit. `firstRow`: of its rows, among the block's.
  template <int kPairs, class FinishOf>
  __device__ __forceinline__ void emitFragment(const IdPair& ids, float (&sums)[kPairs][2], int unit, FinishOf finishOf,
                                               int firstRow = 0) {
    const int t = threadIdx.x % 4, rows = this->rows().count;
    uint32_t scored = 0, scoredRows = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int row = firstRow + 4 * i + t;
      const RowFinish finish = row < rows ? finishOf(row) : RowFinish{0.0f, false};
      scoredRows |= static_cast<uint32_t>(finish.scored) << i;
#pragma unroll
      for (const int half : {0, 1}) {
        const float score = finishLoaded(sums[i][half], finish.scale, ids.bias[half]);
        const bool isScored = finish.scored && ids.scored[half];
        scored |= static_cast<uint32_t>(isScored) << (2 * i + half);
        sums[i][half] = isScored ? score : -INFINITY;
      }
    }
    Best topK = this->topK();
    const LmHeadTopKArgs& args = params_.args;
    [[maybe_unused]] const int64_t first = this->rows().begin + firstRow + t;
    if constexpr (kOptions) {
      if (args.sumsAlone) return storeSums(ids, sums, scored, first);
      if (args.options.any()) applyOptions(args, ids, sums, scored, first);
    }
    if (wantsLogSums() && unit != kNoUnit) logSums().add(sums, unit, firstRow, scoredRows);
    if constexpr (kOptions) {
      if (params_.targets.keys != nullptr) countRanks(args, params_.targets, ids, sums, scored, first);
      if (args.draw.wanted()) {
        scored = addNoise(args, ids, sums, scored, first, done == 0,
                          [&](int i) { return scoredRows >> i & 1 ? topK.leastScore(firstRow + 4 * i + t) : 0.0f; });
      }
    }
    topK.offer(ids, sums, scored, firstRow, done == 0, [&] {
      uint32_t candidates = 0;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float least = scoredRows >> i & 1 ? topK.leastScore(firstRow + 4 * i + t) : 0.0f;
        // Nearly never; but always for NaN.
#pragma unroll
        for (const int half : {0, 1}) candidates |= static_cast<uint32_t>(!(sums[i][half] < least)) << (2 * i + half);
      }
      return candidates & scored;
    });
  }

  int done = 0;  // tiles that lie behind the block's present one

 private:
  template <int kPairs>
  __device__ __forceinline__ void storeSums(const IdPair& ids, const float (&sums)[kPairs][2], uint32_t scored,
                                            int64_t first) const {
    const SumsOut& out = params_.sumsOut;
#pragma unroll
    for (const int half : {0, 1}) {
      const uint32_t id = ids.lower + 8 * half, row = id / out.count;
      float* to = out.sums + row * out.stride + id % out.count;
      // A bit, not an index, which would put sums in memory.
      const int64_t ahead = row - first;
      const uint32_t one = ahead >= 0 && ahead % 4 == 0 && ahead / 4 < kPairs ? 1u << (ahead / 4) : 0u;
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if ((scored >> (2 * i + half) & 1) && (one >> i & 1)) *to = sums[i][half];
      }
    }
  }

  const SweepParams& params_;
  unsigned char* shared_;
};

}  // namespace lm_head
