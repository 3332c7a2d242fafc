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

// The running sums of a block, a slot for each warp and row, so that every addition has its fixed place in the order.
struct LogSums {
  LogSum* slots;   // [warps, rows], shared; null where nobody asked for sums
  LogSum* blocks;  // [rows, gridDim.x], global
  int rows;

  __device__ bool wanted() const { return slots != nullptr; }

  __device__ void reset(int warps) {
    if (!wanted()) return;
    for (int i = threadIdx.x; i < warps * rows; i += warps * 32) slots[i] = LogSum::empty();
  }

  // One lane of a warp adds what the warp has found for a row.
  __device__ void add(int row, const LogSum& sum) {
    LogSum& slot = slots[threadIdx.x / 32 * rows + row];
    slot = slot + sum;
  }

  // Behind a barrier: a thread a row adds up the warps.
  template <class Served>
  __device__ void handOver(int warps, int64_t rowBegin, Served served) {
    if (!wanted()) return;
    for (int row = threadIdx.x; row < rows; row += warps * 32) {
      if (!served(row)) continue;
      LogSum total = LogSum::empty();
      for (int warp = 0; warp < warps; ++warp) total = total + slots[warp * rows + row];
      blocks[(rowBegin + row) * gridDim.x + blockIdx.x] = total;
    }
  }
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

}  // namespace lm_head
