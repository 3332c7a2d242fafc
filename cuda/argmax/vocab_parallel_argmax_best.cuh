// The best of several logits in the one order: of a thread, of 16 bytes, of a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../../kernels/core/order.h"

namespace lm_head {

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float widen(__half x) { return __half2float(x); }

// What a thread has seen, columns in ascending order: of equal values the first one stays.
struct Best {
  static constexpr int32_t kNone = INT32_MIN;  // below -inf
  int32_t order = kNone;
  uint32_t column = 0;

  __device__ void offer(float value, uint32_t valueColumn) {
    const int32_t valueOrder = orderKey(value);
    if (valueOrder <= order) return;
    order = valueOrder;
    column = valueColumn;
  }

  __device__ Key key() const { return order == kNone ? kWorstKey : makeKey(order, column); }
};

__device__ inline Key warpBest(Key key) {
  const uint32_t high = static_cast<uint32_t>(key >> 32);
  const uint32_t best = __reduce_max_sync(0xffffffffu, high);
  const uint32_t low = __reduce_max_sync(0xffffffffu, high == best ? static_cast<uint32_t>(key) : 0u);
  return Key{best} << 32 | low;
}

// `kCount` neighbouring elements, loaded at once.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

__device__ inline float maxOrNan(float a, float b) {
  float max;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(max) : "f"(a), "f"(b));
  return max;
}
__device__ inline float maxOrNan(const Pack<float, 4>& x) {
  return maxOrNan(maxOrNan(x.values[0], x.values[1]), maxOrNan(x.values[2], x.values[3]));
}
template <class Pair>
__device__ inline float maxOrNanOfPairs(const Pair* pairs) {
  const Pair pair = __hmax2_nan(__hmax2_nan(pairs[0], pairs[1]), __hmax2_nan(pairs[2], pairs[3]));
  return widen(__hmax_nan(pair.x, pair.y));
}
__device__ inline float maxOrNan(const Pack<__nv_bfloat16, 8>& x) {
  return maxOrNanOfPairs(reinterpret_cast<const __nv_bfloat162*>(x.values));
}
__device__ inline float maxOrNan(const Pack<__half, 8>& x) {
  return maxOrNanOfPairs(reinterpret_cast<const __half2*>(x.values));
}

// 16 bytes of logits.
template <class T>
struct Lanes : Pack<T, 16 / sizeof(T)> {
  static constexpr int kCount = 16 / sizeof(T);
  __device__ explicit Lanes(const uint4& data) { *reinterpret_cast<uint4*>(this->values) = data; }
  // NaN where one of them is.
  __device__ float largest() const { return maxOrNan(*this); }
};

}  // namespace lm_head
