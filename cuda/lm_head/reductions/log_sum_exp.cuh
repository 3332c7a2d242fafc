// log(sum(exp(x))) of scores that come in any grouping, without overflow: partial sums carry their own maximum.
#pragma once

#include <cmath>
#include <cstdint>

namespace lm_head {

// exp(x - max) for x <= max; 1 where both are the same infinity. NaN stays NaN.
__device__ inline float expOfDifference(float x, float max) { return x == max ? 1.0f : __expf(x - max); }

constexpr float kLog2E = 1.44269504f;

// 2^x; results below 2^-126 are 0.
__device__ inline float exp2Approximate(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// sum * exp(max)
struct LogSum {
  float max;
  float sum;

  static __device__ LogSum empty() { return {-INFINITY, 0.0f}; }
  static __device__ LogSum of(float score) { return {score, 1.0f}; }

  __device__ LogSum operator+(const LogSum& other) const {
    const float larger = fmaxf(max, other.max);
    return {larger, sum * expOfDifference(max, larger) + other.sum * expOfDifference(other.max, larger)};
  }

  // With that of the lane whose number differs in `offset`.
  __device__ LogSum overLanes(int offset) const {
    return *this + LogSum{__shfl_xor_sync(0xffffffffu, max, offset), __shfl_xor_sync(0xffffffffu, sum, offset)};
  }

  __device__ float value() const { return max + logf(sum); }
};

// The sum of two scores a lane (-inf where it has none) over the eight lanes that differ in bits 2 to 4 of their
// number.
__device__ inline LogSum sumOfEightLanes(float first, float second) {
  float max = fmaxf(first, second);
  for (int offset = 4; offset < 32; offset *= 2) max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, offset));
  float sum = expOfDifference(first, max) + expOfDifference(second, max);
  for (int offset = 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  return {max, sum};
}

// The running sums of a block, a slot for each warp and row, so that every addition has its fixed place in the order. A
// slot's `max` need not be the largest score: it stays while what is added to its sum is at most kHeadroom, which
// spares the scaling of what was summed before. Sums stay far from overflow so.
//
// Tiles that a block has by chance are parts of their own, and handed over apart: sums of fixed parts are the same bits
// on every run.
struct LogSums {
  static constexpr float kHeadroom = 0x1p24f;
  static constexpr int kMostParts = 4;

  LogSum* slots;  // [parts, warps, rowsPerBlock], shared; null where nobody asked for sums
  LogSum* out;    // [rows, outOfRow], global
  int rowsPerBlock, outOfRow;
  bool hasParts;      // or just one
  int part = 0;       // 0: of the tiles that are the block's by right, whose place in `out` is blockIdx.x
  int firstSlot = 0;  // of this part

  // The places of the other parts come behind the slots.
  static __host__ __device__ size_t sharedBytes(int parts, int rowsPerBlock, int warps) {
    return static_cast<size_t>(parts) * (warps * rowsPerBlock * sizeof(LogSum) + sizeof(int));
  }

  __device__ bool wanted() const { return slots != nullptr; }

  // `served(row)`: whether scores of the row will come. The others' slots stand for 0 and stay so.
  template <class Served>
  __device__ void reset(int warps, Served served) {
    if (!wanted()) return;
    const int count = parts() * warps * rowsPerBlock;
    for (int i = threadIdx.x; i < count; i += warps * 32) {
      slots[i] = served(i % rowsPerBlock) ? LogSum::empty() : LogSum{0.0f, 0.0f};
    }
  }

  // What is added from now on belongs to `place` of a row's sums.
  __device__ void nextPart(int warps, int place) {
    if (!wanted()) return;
    ++part;
    firstSlot += warps * rowsPerBlock;
    if (threadIdx.x == 0) places(warps)[part] = place;
  }

  // One lane of a warp adds what the warp has found for a row.
  __device__ void add(int row, const LogSum& sum) {
    LogSum& slot = slotsOfWarp()[row];
    slot = slot + sum;
  }

  // A warp adds its scores: lane 4g + t has two of row 4i + t in scores[i], -inf where there is none.
  template <int kPairs>
  __device__ void add(const float (&scores)[kPairs][2]) {
    const int t = threadIdx.x % 4;
    LogSum* slots = slotsOfWarp();
    float sums[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float offset = -slots[4 * i + t].max * kLog2E;
      sums[i] =
          exp2Approximate(fmaf(scores[i][0], kLog2E, offset)) + exp2Approximate(fmaf(scores[i][1], kLog2E, offset));
    }
    const int first = overLanes<4, kPairs>(sums, 0, Plus());
    constexpr int kOwn = kPairs > 8 ? kPairs / 8 : 1;
    const bool owner = threadIdx.x % 32 / 4 < kPairs;  // the others have the same sums as lanes below
    bool fits = true;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) fits &= sums[i] <= kHeadroom;  // not so for NaN
    if (!__all_sync(0xffffffffu, fits)) {
      float maxima[kPairs];
#pragma unroll
      for (int i = 0; i < kPairs; ++i) maxima[i] = fmaxf(scores[i][0], scores[i][1]);
      overLanes<4, kPairs>(maxima, 0, Larger());
      __syncwarp();  // behind the loads of other lanes
      if (owner) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) add(4 * (first + i) + t, {maxima[i], 0.0f});
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float max = slots[4 * i + t].max;
        sums[i] = expOfDifference(scores[i][0], max) + expOfDifference(scores[i][1], max);
      }
      overLanes<4, kPairs>(sums, 0, Plus());
    }
    if (owner) {
#pragma unroll
      for (int i = 0; i < kOwn; ++i) slots[4 * (first + i) + t].sum += sums[i];
    }
    __syncwarp();  // before another lane adds to the same slot
  }

  // Behind a barrier: adds up kWarps warps, a lane each, at most 32.
  template <int kWarps, class Served>
  __device__ void handOver(int64_t rowBegin, int rows, Served served) {
    if (!wanted()) return;
    constexpr int kLanes = kWarps <= 4 ? 4 : kWarps <= 8 ? 8 : kWarps <= 16 ? 16 : 32;
    const int lane = threadIdx.x % kLanes;
    // Of all parts at once.
    const int count = (part + 1) * rows;
    for (int begin = 0; begin < count; begin += kWarps * 32 / kLanes) {
      const int i = begin + threadIdx.x / kLanes, from = i / rows, row = i % rows;
      const LogSum* slotsOfRow = slots + from * (kWarps * rowsPerBlock) + row;
      LogSum total = i < count && lane < kWarps ? slotsOfRow[lane * rowsPerBlock] : LogSum::empty();
      for (int offset = kLanes / 2; offset > 0; offset /= 2) total = total.overLanes(offset);
      if (lane > 0 || i >= count || !served(row)) continue;
      out[(rowBegin + row) * outOfRow + (from == 0 ? blockIdx.x : places(kWarps)[from])] = total;
    }
  }

 private:
  __device__ LogSum* slotsOfWarp() const { return slots + firstSlot + threadIdx.x / 32 * rowsPerBlock; }
  __device__ int parts() const { return hasParts ? kMostParts : 1; }
  __device__ int* places(int warps) const { return reinterpret_cast<int*>(slots + parts() * warps * rowsPerBlock); }

  struct Plus {
    __device__ float operator()(float a, float b) const { return a + b; }
  };
  struct Larger {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  };

  // Combines values[i] of the eight lanes with the same t, for all i. While there are several, a lane gives half of
  // them away and gets as many: 14 shuffles for 16 values, where each for itself would take 48. Returns the first i of
  // those that the lane has in the end.
  template <int kOffset, int kCount, int kPairs, class Combine>
  static __device__ int overLanes(float (&values)[kPairs], int first, Combine combine) {
    if constexpr (kOffset == 32) {
      return first;
    } else if constexpr (kCount == 1) {
      values[0] = combine(values[0], __shfl_xor_sync(0xffffffffu, values[0], kOffset));
      return overLanes<2 * kOffset, 1>(values, first, combine);
    } else {
      constexpr int kHalf = kCount / 2;
      const bool upper = threadIdx.x & kOffset;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float given = upper ? values[i] : values[kHalf + i];
        values[i] = combine(upper ? values[kHalf + i] : values[i], __shfl_xor_sync(0xffffffffu, given, kOffset));
      }
      return overLanes<2 * kOffset, kHalf>(values, upper ? first + kHalf : first, combine);
    }
  }
};

}  // namespace lm_head
