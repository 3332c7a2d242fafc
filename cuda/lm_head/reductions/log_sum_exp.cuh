// logSumExp: of each row and 64 neighbouring ids a term, the largest score and the sum of exp(score - largest), in a tree
// that is the same for every number of rows, block and run. A block adds its terms up exactly, and the merge those of
// all blocks, so that their order does not matter: see kernels/core/log_sum.h.
#pragma once

#include "../../../kernels/core/log_sum.h"
#include "../tiling.cuh"
#include "../workers.cuh"

namespace lm_head {

struct LogSumExpParams {
  LogSumTerm* terms;  // [rows, gridDim.x, termsOfBlock], or null; a group of ids each
  int termsOfBlock;
  LogSum* sums;  // [rows, gridDim.x]
};

// The sum of what the lanes of a warp have, whose largest score all of them know.
__device__ inline LogSum sumOfWarp(LogSum sum) {
#pragma unroll
  for (int64_t& limb : sum.limbs) {
    for (int offset = 16; offset > 0; offset /= 2)
      limb += static_cast<int64_t>(__shfl_xor_sync(0xffffffffu, static_cast<long long>(limb), offset));
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
      termsOf(row)[terms_ + group] = sumOfUnits(units_ + group * kUnits * rowsPerBlock_ + row);
    }
    for (int group = 0; group < groups; ++group) terms_ += tile.id(group * kGroupIds) < vocabSize;
    syncWorkers<kThreads>();
  }

  // All workers, behind the last tile: hands over what the terms add up to, a warp a row.
  template <class Served>
  __device__ void flush(int rows, Served served) {
    for (int row = threadIdx.x / 32; row < rows; row += kThreads / 32) {
      if (!served(row)) continue;
      LogSum total = LogSum::empty();
      const LogSumTerm* terms = termsOf(row);
      for (int i = threadIdx.x % 32; i < terms_; i += 32) total.raise(terms[i].max);
      for (int offset = 16; offset > 0; offset /= 2) total.raise(__shfl_xor_sync(0xffffffffu, total.max, offset));
      const double window = LogSum::windowOf(total.max);
      for (int i = threadIdx.x % 32; i < terms_; i += 32) LogSum::addAt(window, terms[i], total.limbs);
      total = sumOfWarp(total);
      if (threadIdx.x % 32 == 0) params_.sums[(rowBegin_ + row) * gridDim.x + blockIdx.x] = total;
    }
    terms_ = 0;
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

  __device__ LogSumTerm* termsOf(int row) const {
    return params_.terms + ((rowBegin_ + row) * gridDim.x + blockIdx.x) * params_.termsOfBlock;
  }

  const LogSumExpParams& params_;
  LogSumTerm* units_;  // [tile's units, rows], shared
  int rowsPerBlock_;
  int64_t rowBegin_;
  int terms_ = 0;  // of each row so far
};

}  // namespace lm_head
