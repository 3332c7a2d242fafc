// logSumExp: of each row and 64 neighbouring ids a term, the largest score and the sum of exp(score - largest), in a
// tree that is the same for every number of rows, block and run. A block adds its terms up exactly, and the merge those
// of all blocks, so that their order does not matter: see kernels/core/log_sum.h.
#pragma once

#include "../../../kernels/core/log_sum.h"
#include "../../common/lane.cuh"
#include "../block_rows.cuh"
#include "../tiling.cuh"
#include "../workers.cuh"

namespace lm_head {

struct LogSumExpParams {
  LogSumTerm* terms;  // [rows, gridDim.x, termsOfBlock], or null; a group of ids each
  int termsOfBlock;
  LogSum* sums;  // [rows, gridDim.x]
};

// The largest of a warp's scores; NaN is above all.
__device__ inline float largestOfWarp(float score) {
  for (int offset = 16; offset > 0; offset /= 2)
    score = LogSum::larger(score, __shfl_xor_sync(0xffffffffu, score, offset));
  return score;
}

// The sum of what the lanes of a warp have, whose largest score all of them know. Limbs are below 2^43.
__device__ inline LogSum sumOfWarp(LogSum sum) {
#pragma unroll
  for (int64_t& limb : sum.limbs) {
    const uint32_t lower = __reduce_add_sync(0xffffffffu, static_cast<uint32_t>(limb) & 0xffff),
                   upper = __reduce_add_sync(0xffffffffu, static_cast<uint32_t>(limb >> 16));
    limb = static_cast<int64_t>(upper) * 0x10000 + lower;
  }
  return sum;
}

// exp(x - max) for x <= max; 1 where both are the same infinity. NaN stays NaN.
__device__ inline float expOfDifference(float x, float max) {
  constexpr float kLog2E = 1.44269504f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"((x - max) * kLog2E));
  return x == max ? 1.0f : result;
}

// Folds kCount values, a power of two up to 8, over the lanes with the same t = lane % 4, of neighbours first. Lanes
// share the values among them and end with one each, that of pairOf().
template <int kCount, class Fold>
__device__ inline float foldLanes(const float (&values)[kCount], Fold fold) {
  constexpr int kAllLanes = 32;
  const unsigned lane = laneOfWarp();
  float own[kCount];
  for (int i = 0; i < kCount; ++i) own[i] = values[i];
  int count = kCount;
#pragma unroll
  for (int offset = 4; offset < kAllLanes; offset *= 2) {
    const bool upper = (lane & offset) != 0;
    if (count > 1) count /= 2;
    const bool halves = offset < 4 * kCount;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (i >= count) break;
      const float kept = halves && upper ? own[i + count] : own[i];
      const float given = halves ? (upper ? own[i] : own[i + count]) : own[i];
      own[i] = fold(kept, __shfl_xor_sync(0xffffffffu, given, offset));
    }
  }
  return own[0];
}

// The value that this lane ends with; and of the lanes that end with the same one, and have t, the first.
template <int kCount>
__device__ inline int pairOf() {
  const unsigned lane = laneOfWarp();
  int pair = 0, count = kCount;
  for (int offset = 4; offset < 4 * kCount; offset *= 2) {
    count /= 2;
    if ((lane & offset) != 0) pair += count;
  }
  return pair;
}

template <int kCount>
__device__ inline int laneOf(int pair) {
  int lane = laneOfWarp() % 4, count = kCount;
  for (int offset = 4; offset < 4 * kCount; offset *= 2) {
    count /= 2;
    if ((pair & count) != 0) lane += offset;
  }
  return lane;
}

// The place of a fragment that has no ids in the tile.
constexpr int kNoUnit = -1;

// kUnitIds: ids of a fragment, whose scores a warp sums up by itself; the block adds up the units of a group.
template <int kThreads, int kTileVocab, int kUnitIds>
class LogSumExp {
 public:
  static __host__ __device__ size_t sharedBytes(int rowsPerBlock) {
    return static_cast<size_t>(rowsPerBlock) * (kTileVocab / kUnitIds) * sizeof(LogSumTerm);
  }

  __device__ LogSumExp(const LogSumExpParams& params, unsigned char* shared, const BlockRows& rows)
      : params_(params), units_(reinterpret_cast<LogSumTerm*>(shared)), rows_(rows) {}

  // A warp: the scores of a fragment, -inf where there is none; `unit` is its place in the tile, and a bit of
  // `scoredRows` tells for each i whether this lane's row 4i + t has scores.
  template <int kPairs>
  __device__ void add(const float (&scores)[kPairs][2], int unit, int firstRow, uint32_t scoredRows) {
    // A group of pairs at a time, for registers.
    constexpr int kGroup = kPairs < 8 ? kPairs : 8;
#pragma unroll
    for (int begin = 0; begin < kPairs; begin += kGroup) {
      float own[kGroup], largest[kGroup], sums[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) own[i] = fmaxf(scores[begin + i][0], scores[begin + i][1]);
      const float most = foldLanes(own, [](float a, float b) { return fmaxf(a, b); });
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        largest[i] = __shfl_sync(0xffffffffu, most, laneOf<kGroup>(i));
        sums[i] = expOfDifference(scores[begin + i][0], largest[i]) + expOfDifference(scores[begin + i][1], largest[i]);
      }
      const float sum = foldLanes(sums, [](float a, float b) { return a + b; });
      const int i = pairOf<kGroup>(), row = firstRow + 4 * (begin + i) + laneOfWarp() % 4;
      if (laneOfWarp() == laneOf<kGroup>(i) && (scoredRows >> (begin + i) & 1))
        units_[unit * rows_.most + row] = {most, sum};
    }
  }

  // All workers, behind the last fragment of a tile: a thread a row and group. `done`: tiles that lie behind this one.
  template <class Served>
  __device__ void finishTile(const Tile& tile, int64_t vocabSize, int done, Served served) {
    syncWorkers<kThreads>();
    for (int i = threadOfBlock(); i < kGroups * rows_.count; i += kThreads) {
      const int group = i / rows_.count, row = i % rows_.count;
      if (!served(row)) continue;
      const bool there = group * kGroupIds < tile.size && tile.id(group * kGroupIds) < vocabSize;
      termsOf(row)[done * kGroups + group] =
          there ? sumOfUnits(units_ + group * kUnits * rows_.most + row) : LogSumTerm{-INFINITY, 0.0f};
    }
    syncWorkers<kThreads>();
  }

  // All workers, behind the last tile: hands over what the terms add up to, a warp a row.
  template <class Served>
  __device__ void flush(int done, Served served) {
    const int count = done * kGroups;
    for (int row = warpOfBlock(); row < rows_.count; row += kThreads / 32) {
      if (!served(row)) continue;
      const LogSumTerm* terms = termsOf(row);
      // Nearly always these are all.
      const int lane = laneOfWarp();
      const LogSumTerm first = lane < count ? terms[lane] : LogSumTerm{-INFINITY, 0.0f};
      LogSum total = LogSum::empty();
      total.max = LogSum::larger(total.max, first.max);
      for (int i = lane + 32; i < count; i += 32) total.max = LogSum::larger(total.max, terms[i].max);
      total.max = largestOfWarp(total.max);
      const double window = LogSum::windowOf(total.max);
      if (lane < count) LogSum::addAt(window, first, total.limbs);
      for (int i = lane + 32; i < count; i += 32) LogSum::addAt(window, terms[i], total.limbs);
      total = sumOfWarp(total);
      if (laneOfWarp() == 0) params_.sums[(rows_.begin + row) * gridDim.x + blockIdx.x] = total;
    }
  }

 private:
  static constexpr int kUnits = kGroupIds / kUnitIds;     // of a group
  static constexpr int kGroups = kTileVocab / kGroupIds;  // of a tile

  __device__ LogSumTerm sumOfUnits(const LogSumTerm* units) const {
    float largest = -INFINITY, sum = 0.0f;
    for (int unit = 0; unit < kUnits; ++unit) largest = fmaxf(largest, units[unit * rows_.most].max);
    for (int unit = 0; unit < kUnits; ++unit) {
      const LogSumTerm& own = units[unit * rows_.most];
      sum += own.sum * expOfDifference(own.max, largest);
    }
    // fmaxf leaves NaN out.
    return {sum != sum ? NAN : largest, sum};
  }

  __device__ LogSumTerm* termsOf(int row) const {
    return params_.terms + ((rows_.begin + row) * gridDim.x + blockIdx.x) * params_.termsOfBlock;
  }

  const LogSumExpParams& params_;
  LogSumTerm* units_;  // [tile's units, rows], shared
  BlockRows rows_;
};

}  // namespace lm_head
