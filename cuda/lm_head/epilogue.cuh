// From a main loop's sums to scores, and on to what is kept of them.
#pragma once

#include "../../kernels/core/finish.h"
#include "reductions/log_sum_exp.cuh"
#include "reductions/top_k.cuh"

namespace lm_head {

// What one launch of the sweep is given, beside what its main loop needs.
struct SweepParams {
  LmHeadTopKArgs args;
  Tiling tiling;
  int rowsPerBlock;  // blockIdx.y serves rows from blockIdx.y * rowsPerBlock on
  TopKParams topK;
  LogSumExpParams logSumExp;
};

// Loads a number where there is one, without a branch: so that many loads are on their way at once.
template <class T>
__device__ inline T loadIf(bool there, const T* from) {
  static_assert(sizeof(T) == 4);
  uint32_t bits;
  asm("{ .reg .pred there; setp.ne.u32 there, %2, 0; mov.u32 %0, 0; @there ld.global.nc.u32 %0, [%1]; }"
      : "=r"(bits)
      : "l"(from), "r"(static_cast<uint32_t>(there)));
  return reinterpret_cast<const T&>(bits);
}

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
  __device__ void emitFragment(const IdPair& ids, float (&sums)[kPairs][2], int unit, FinishOf finishOf,
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
    if constexpr (kOptions) applyOptions(ids, sums, scored, firstRow);
    Best topK = this->topK();
    if (wantsLogSums() && unit != kNoUnit) logSums().add(sums, unit, firstRow, scoredRows);
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
  // What options make of those scores whose bits are set in `scored`; others become -inf. Option by option, each a
  // straight line over the scores of a lane: one after the other they would wait for memory, and a loop over scores
  // would need them in memory.
  template <int kPairs>
  __device__ __forceinline__ void applyOptions(const IdPair& ids, float (&scores)[kPairs][2], uint32_t scored,
                                               int firstRow) const {
    const LmHeadTopKArgs& args = params_.args;
    const ScoreOptions& options = args.options;
    const int64_t first = rows().begin + firstRow + laneOfWarp() % 4;
    const auto hasRow = [&](int i) { return (scored >> (2 * i) & 3) != 0; };
    const auto id = static_cast<uint32_t>(args.vocabStart) + ids.lower;
    uint32_t allowed = scored;
    if (options.rowBias != nullptr) {
      const float* bias = options.rowBias + first * args.vocabSize + ids.lower;
#pragma unroll
      for (int i = 0; i < kPairs; ++i, bias += 4 * args.vocabSize) {
#pragma unroll
        for (const int half : {0, 1}) {
          scores[i][half] = addRounded(scores[i][half], loadIf(scored >> (2 * i + half) & 1, bias + 8 * half));
        }
      }
    }
    if (options.softCap.values != nullptr) {
      const float* softCap = options.softCap.values + first * options.softCap.stride;
#pragma unroll
      for (int i = 0; i < kPairs; ++i, softCap += 4 * options.softCap.stride) {
        const float cap = loadIf(hasRow(i), softCap);
#pragma unroll
        for (const int half : {0, 1}) scores[i][half] = capped(scores[i][half], cap);
      }
    }
    if (options.scale.values != nullptr) {
      const float* scale = options.scale.values + first * options.scale.stride;
#pragma unroll
      for (int i = 0; i < kPairs; ++i, scale += 4 * options.scale.stride) {
        const float factor = loadIf(hasRow(i), scale);
#pragma unroll
        for (const int half : {0, 1}) scores[i][half] = multiplyRounded(scores[i][half], factor);
      }
    }
    if (options.adjust.ids != nullptr) {
      const AdjustIndex& index = options.adjust.index;
      const int64_t stride = options.adjust.lists == 1 ? 0 : index.words;
      const uint32_t listed = bitsOfIds<kPairs>(
          id, index.listed + first * stride, 4 * stride, [&](uint32_t of) { return index.wordOf(of); }, scored);
      adjustListed(id, scores, listed, first);
    }
    if (options.mask != nullptr) {
      const uint32_t* mask = options.mask + first * options.maskStride;
      allowed = bitsOfIds<kPairs>(
          id, mask, 4 * options.maskStride, [](uint32_t of) { return of / 32; }, scored);
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
#pragma unroll
      for (const int half : {0, 1}) {
        if ((allowed >> (2 * i + half) & 1) == 0) scores[i][half] = -INFINITY;
      }
    }
  }

  // The bits of ids `id` and `id` + 8 in a lane's rows, of those that are set in `scored`: word wordOf(id) from `words`
  // on, and `stride` words further for each pair.
  template <int kPairs, class WordOf>
  static __device__ uint32_t bitsOfIds(uint32_t id, const uint32_t* words, int64_t stride, WordOf wordOf,
                                       uint32_t scored) {
    // Mostly both ids have the same word.
    const bool twoWords = id % 32 >= 24;
    const uint32_t *lower = words + wordOf(id), *upper = words + wordOf(id + 8);
    uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i, lower += stride, upper += stride) {
      const uint32_t word = loadIf((scored >> (2 * i) & 3) != 0, lower);
      const uint32_t next = loadIf(twoWords && (scored >> (2 * i) & 2) != 0, upper);
      const uint32_t both = __funnelshift_r(word, next, id % 32);
      bits |= ((both & 1) | (both >> 7 & 2)) << (2 * i);
    }
    return bits & scored;
  }

  // Adjusts those scores whose bits are set in `listed`, which are few.
  template <int kPairs>
  __device__ void adjustListed(uint32_t id, float (&scores)[kPairs][2], uint32_t listed, int64_t firstRow) const {
#pragma unroll 1
    while (listed != 0) {
      // Scores are registers, so they are found by their bits: an index would put them in memory.
      const int place = __ffs(listed) - 1;
      const uint32_t one = 1u << place;
      listed ^= one;
      float score = 0.0f;
#pragma unroll
      for (int i = 0; i < 2 * kPairs; ++i) score = (one >> i & 1) ? scores[i / 2][i % 2] : score;
      score = adjusted(params_.args.options.adjust, firstRow + 4 * (place / 2),
                       static_cast<int32_t>(id + 8 * (place % 2)), score);
#pragma unroll
      for (int i = 0; i < 2 * kPairs; ++i) scores[i / 2][i % 2] = (one >> i & 1) ? score : scores[i / 2][i % 2];
    }
  }

  const SweepParams& params_;
  unsigned char* shared_;
};

}  // namespace lm_head
