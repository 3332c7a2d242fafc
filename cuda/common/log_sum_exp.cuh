// log(sum(exp(x))) of scores that come in any grouping, without overflow: partial sums carry their own maximum.
#pragma once

#include <cmath>
#include <cstdint>

namespace lm_head {

// exp(x - max) for x <= max; 1 where both are the same infinity. NaN stays NaN.
__device__ inline float expOfDifference(float x, float max) { return x == max ? 1.0f : __expf(x - max); }

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
// slot's `max` is the largest score only up to kHeadroom: it stays while no score exceeds it by more, which spares
// the scaling of what was summed before. Sums stay far from overflow so, and the exponentials as exact as they are near
// 0.
struct LogSums {
  static constexpr float kHeadroom = 16.0f;

  LogSum* slots;   // [warps, rowsPerBlock], shared; null where nobody asked for sums
  LogSum* blocks;  // [rows, gridDim.x], global
  int rowsPerBlock;

  __device__ bool wanted() const { return slots != nullptr; }

  // `served(row)`: whether scores of the row will come. The others' slots stand for 0 and stay so.
  template <class Served>
  __device__ void reset(int warps, Served served) {
    if (!wanted()) return;
    for (int i = threadIdx.x; i < warps * rowsPerBlock; i += warps * 32) {
      slots[i] = served(i % rowsPerBlock) ? LogSum::empty() : LogSum{0.0f, 0.0f};
    }
  }

  // One lane of a warp adds what the warp has found for a row.
  __device__ void add(int row, const LogSum& sum) {
    LogSum& slot = slotsOfWarp()[row];
    slot = slot + sum;
  }

  // A warp adds its scores: lane 4g + t has two of row 4i + t in scores[i], -inf where there is none.
  template <int kPairs>
  __device__ void add(const float (&scores)[kPairs][2]) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    LogSum* slots = slotsOfWarp();
    float sums[kPairs];
    bool fits = true;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float max = slots[4 * i + t].max;
      const float first = scores[i][0] - max, second = scores[i][1] - max;
      fits &= first <= kHeadroom && second <= kHeadroom;  // not so for NaN
      sums[i] = __expf(first) + __expf(second);
    }
    if (__all_sync(0xffffffffu, fits)) {
      addOverLanes<4, kPairs>(sums, 0, slots);
    } else {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const LogSum sum = sumOfEightLanes(scores[i][0], scores[i][1]);
        __syncwarp();  // behind the loads of other lanes
        if (lane < 4) add(4 * i + t, sum);
      }
    }
    __syncwarp();  // before another lane adds to the same slot
  }

  // Behind a barrier: a thread a row adds up the warps.
  template <class Served>
  __device__ void handOver(int warps, int64_t rowBegin, int rows, Served served) {
    if (!wanted()) return;
    for (int row = threadIdx.x; row < rows; row += warps * 32) {
      if (!served(row)) continue;
      LogSum total = LogSum::empty();
      for (int warp = 0; warp < warps; ++warp) total = total + slots[warp * rowsPerBlock + row];
      blocks[(rowBegin + row) * gridDim.x + blockIdx.x] = total;
    }
  }

 private:
  __device__ LogSum* slotsOfWarp() const { return slots + threadIdx.x / 32 * rowsPerBlock; }

  // Adds sums[i] of the eight lanes with the same t to the slot of row 4 * (first + i) + t. While there are several
  // sums, a lane gives half of them away and gets as many: 14 shuffles for 16 sums, where each for itself would
  // take 48.
  template <int kOffset, int kCount, int kPairs>
  static __device__ void addOverLanes(float (&sums)[kPairs], int first, LogSum* slots) {
    const int lane = threadIdx.x % 32;
    if constexpr (kOffset == 32) {
      if (lane / 4 >= kPairs) return;  // these have the same sums as lanes below
#pragma unroll
      for (int i = 0; i < kCount; ++i) slots[4 * (first + i) + lane % 4].sum += sums[i];
    } else if constexpr (kCount == 1) {
      sums[0] += __shfl_xor_sync(0xffffffffu, sums[0], kOffset);
      addOverLanes<2 * kOffset, 1>(sums, first, slots);
    } else {
      constexpr int kHalf = kCount / 2;
      const bool upper = lane & kOffset;
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const float given = upper ? sums[i] : sums[kHalf + i];
        sums[i] = (upper ? sums[kHalf + i] : sums[i]) + __shfl_xor_sync(0xffffffffu, given, kOffset);
      }
      addOverLanes<2 * kOffset, kHalf>(sums, upper ? first + kHalf : first, slots);
    }
  }
};

}  // namespace lm_head
