// The terms of logSumExp: of each row and 64 neighbouring ids, the largest score and the sum of exp(score - largest), in
// a tree that is the same for every number of rows, block and run. The merge adds terms up exactly, in any order: see
// kernels/core/log_sum.h.
#pragma once

#include "../../../kernels/core/log_sum.h"
#include "../tiling.cuh"
#include "../workers.cuh"

namespace lm_head {

struct LogSumExpParams {
  LogSumTerm* terms;    // [rows, termsOfRow], or null
  int64_t termsOfRow;  // a group of ids each
};

// exp(x - max) for x <= max; 1 where both are the same infinity. NaN stays NaN.
__device__ inline float expOfDifference(float x, float max) {
  constexpr float kLog2E = 1.44269504f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"((x - max) * kLog2E));
  return x == max ? 1.0f : result;
}

// The place of a fragment that has no ids in the tile.
constexpr int kNoUnit = -1;

// kUnitIds: ids of a fragment, whose scores a warp sums up by itself; the block adds up the units of a group.
template <int kThreads, int kUnitIds>
class LogSumExp {
 public:
  static __host__ __device__ size_t sharedBytes(int rowsPerBlock, int tileVocab) {
    return static_cast<size_t>(rowsPerBlock) * (tileVocab / kUnitIds) * sizeof(LogSumTerm);
  }

  __device__ LogSumExp(const LogSumExpParams& params, unsigned char* shared, int rowsPerBlock, int64_t rowBegin)
      : params_(params),
        units_(reinterpret_cast<LogSumTerm*>(shared)),
        rowsPerBlock_(rowsPerBlock),
        rowBegin_(rowBegin) {}

  __device__ bool wanted() const { return params_.terms != nullptr; }

  // A warp: the scores of a fragment, -inf where there is none; `unit` is its place in the tile, and a bit of `scoredRows`
  // tells for each i whether this lane's row 4i + t has scores.
  template <int kPairs>
  __device__ void add(const float (&scores)[kPairs][2], int unit, int firstRow, uint32_t scoredRows) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    float largest[kPairs], sums[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      largest[i] = fmaxf(scores[i][0], scores[i][1]);
      for (int offset = 4; offset < 32; offset *= 2)
        largest[i] = fmaxf(largest[i], __shfl_xor_sync(0xffffffffu, largest[i], offset));
      sums[i] = expOfDifference(scores[i][0], largest[i]) + expOfDifference(scores[i][1], largest[i]);
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      for (int offset = 4; offset < 32; offset *= 2) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], offset);
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int row = firstRow + 4 * i + t;
      if (lane / 4 == i % 8 && (scoredRows >> i & 1)) units_[unit * rowsPerBlock_ + row] = {largest[i], sums[i]};
    }
  }

  // All workers, behind the last fragment of a tile: a thread a row and group.
  template <class Served>
  __device__ void finishTile(const Tile& tile, int64_t vocabSize, int rows, Served served) {
    syncWorkers<kThreads>();
    const int groups = tile.size / kGroupIds;
    for (int i = threadIdx.x; i < groups * rows; i += kThreads) {
      const int group = i / rows, row = i % rows;
      const int64_t firstId = tile.id(group * kGroupIds);
      if (firstId >= vocabSize || !served(row)) continue;
      params_.terms[(rowBegin_ + row) * params_.termsOfRow + firstId / kGroupIds] =
          sumOfUnits(units_ + group * kUnits * rowsPerBlock_ + row);
    }
    syncWorkers<kThreads>();
  }

 private:
  static constexpr int kUnits = kGroupIds / kUnitIds;  // of a group

  __device__ LogSumTerm sumOfUnits(const LogSumTerm* units) const {
    float largest = -INFINITY, sum = 0.0f;
    for (int unit = 0; unit < kUnits; ++unit) largest = fmaxf(largest, units[unit * rowsPerBlock_].max);
    for (int unit = 0; unit < kUnits; ++unit) {
      const LogSumTerm& own = units[unit * rowsPerBlock_];
      sum += own.sum * expOfDifference(own.max, largest);
    }
    // fmaxf leaves NaN out.
    return {sum != sum ? NAN : largest, sum};
  }

  const LogSumExpParams& params_;
  LogSumTerm* units_;  // [tile's units, rows], shared
  int rowsPerBlock_;
  int64_t rowBegin_;
};

}  // namespace lm_head
