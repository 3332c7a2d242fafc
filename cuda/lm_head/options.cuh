// What the options of a call make of a fragment's scores, which are a lane's registers: see fragment.cuh.
#pragma once

#include "../../kernels/core/finish.h"
#include "../common/lane.cuh"
#include "fragment.cuh"
#include "reductions/rank.cuh"

namespace lm_head {

// Loads a number where there is one, without a branch: so that many loads are on their way at once.
template <class T>
__device__ __forceinline__ T loadIf(bool there, const T* from) {
  static_assert(sizeof(T) == 4);
  uint32_t bits;
  asm("{ .reg .pred there; setp.ne.u32 there, %2, 0; mov.u32 %0, 0; @there ld.global.nc.u32 %0, [%1]; }"
      : "=r"(bits)
      : "l"(from), "r"(static_cast<uint32_t>(there)));
  return reinterpret_cast<const T&>(bits);
}

// The bits of ids `id` and `id` + 8 in a lane's rows, of those that are set in `scored`: word wordOf(id) from `words`
// on, and `stride` words further for each pair.
template <int kPairs, class WordOf>
__device__ __forceinline__ uint32_t bitsOfIds(uint32_t id, const uint32_t* words, int64_t stride, WordOf wordOf,
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

// score = change(row, id, score) for those scores whose bits are set in `which`, which are few. `id`: the lane's lower
// one; `first`: its first row.
template <int kPairs, class Change>
__device__ __forceinline__ void changeScores(uint32_t id, float (&scores)[kPairs][2], uint32_t which, int64_t first,
                                             Change change) {
#pragma unroll 1
  while (which != 0) {
    // Scores are registers, so they are found by their bits: an index would put them in memory.
    const int place = __ffs(which) - 1;
    const uint32_t one = 1u << place;
    which ^= one;
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) score = (one >> i & 1) ? scores[i / 2][i % 2] : score;
    score = change(first + 4 * (place / 2), id + 8 * (place % 2), score);
#pragma unroll
    for (int i = 0; i < 2 * kPairs; ++i) scores[i / 2][i % 2] = (one >> i & 1) ? score : scores[i / 2][i % 2];
  }
}

// What options make of those scores whose bits are set in `scored`; others become -inf. `first`: the lane's first row.
// Option by option, each a straight line over the scores of a lane: one after the other they would wait for memory, and
// a loop over scores would need them in memory.
template <int kPairs>
__device__ __forceinline__ void applyOptions(const LmHeadTopKArgs& args, const IdPair& ids, float (&scores)[kPairs][2],
                                             uint32_t scored, int64_t first) {
  const ScoreOptions& options = args.options;
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
    changeScores(id, scores, listed, first, [&](int64_t row, uint32_t of, float score) {
      return adjusted(options.adjust, row, static_cast<int32_t>(of), score);
    });
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

// Adds the noise of a draw to those scores whose bits are set in `scored`, and returns the bits of those that may still
// be the best of their row; others become -inf. leastOf(i): no score below can be wanted of a lane's pair i, or NaN.
// Most cannot win whatever their noise is: it is the logarithm of a number whose size is known before logarithms are
// taken.
template <int kPairs, class LeastOf>
__device__ __forceinline__ uint32_t addNoise(const LmHeadTopKArgs& args, const IdPair& ids, float (&scores)[kPairs][2],
                                             uint32_t scored, int64_t first, bool anyMayWin, LeastOf leastOf) {
  const DrawOption& draw = args.draw;
  const auto id = static_cast<uint32_t>(args.vocabStart) + ids.lower;
  uint32_t mayWin = scored;
  // Where the two ids of a lane have words of one block.
  if (!anyMayWin && args.vocabStart % 16 == 0) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int64_t row = min(first + 4 * i, args.rows - 1);
      const float heat = draw.temperature.of(row), least = leastOf(i);
      const NoiseWords noise = noiseWords(draw.seedOf(row), draw.rowIdOf(row), id);
      // A lane has one id alone where the other would be in the next block.
      const uint32_t upperWords[] = {(id & 8) != 0 ? noise.words[2] : noise.words[0], noise.words[2]};
      float inverse;
      asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(heat));
#pragma unroll
      for (const int half : {0, 1}) {
        // Noise is -log(E), and E is at least the uniform number. What rounding can make of it is less than the slack.
        const float scaled = scores[i][half] * inverse;
        const float slack = 2e-2f + 1e-6f * (fabsf(scaled) + fabsf(least));
        float bound;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(bound) : "f"((scaled - least + slack) * 1.44269504f));
        const float uniform = static_cast<float>(upperWords[half]) * 0x1p-32f;
        const bool hasNoise = heat != 0.0f && scores[i][half] != -INFINITY;
        const bool loses = hasNoise ? uniform > bound : scores[i][half] < least;
        mayWin &= ~(static_cast<uint32_t>(loses) << (2 * i + half));
      }
    }
  }
  changeScores(id, scores, mayWin, first,
               [&](int64_t row, uint32_t of, float score) { return draw.noisyScore(row, of, score); });
#pragma unroll
  for (int i = 0; i < 2 * kPairs; ++i) {
    if ((mayWin >> i & 1) == 0) scores[i / 2][i % 2] = -INFINITY;
  }
  return mayWin;
}

// Counts those scores whose bits are set in `scored` and that come before one of their row's targets. All lanes of a
// warp, together.
template <int kPairs>
__device__ __forceinline__ void countRanks(const LmHeadTopKArgs& args, const RankTargets& targets, const IdPair& ids,
                                           const float (&scores)[kPairs][2], uint32_t scored, int64_t first) {
  const auto id = static_cast<uint32_t>(args.vocabStart) + ids.lower;
  uint32_t before = 0;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const int64_t row = min(first + 4 * i, args.rows - 1);
    const Key last = targets.keys[row * targets.count + targets.count - 1];
#pragma unroll
    for (const int half : {0, 1})
      before |= static_cast<uint32_t>(makeKey(scores[i][half], id + 8 * half) > last) << (2 * i + half);
  }
  before &= scored;
  if (targets.count > 1) {
    float copies[kPairs][2];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) copies[i][0] = scores[i][0], copies[i][1] = scores[i][1];
    changeScores(id, copies, before, first, [&](int64_t row, uint32_t of, float score) {
      countBefore(targets, row, makeKey(score, of));
      return score;
    });
    return;
  }
  // Of one target, there may be many: one addition for a warp and row.
  const unsigned sameRow = 0x11111111u << laneOfWarp() % 4;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const unsigned lower = __ballot_sync(0xffffffffu, before >> (2 * i) & 1),
                   upper = __ballot_sync(0xffffffffu, before >> (2 * i + 1) & 1);
    const int count = __popc(lower & sameRow) + __popc(upper & sameRow);
    if (laneOfWarp() < 4 && count > 0) atomicAdd(targets.buckets + first + 4 * i, count);
  }
}

}  // namespace lm_head
