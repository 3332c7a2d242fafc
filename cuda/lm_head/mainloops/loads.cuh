// How plain arithmetic loads the weights of a dense head: four neighbouring columns of an id at once, as float32, zeros
// behind hiddenSize.
#pragma once

#include "../../../kernels/core/lm_head_topk_args.h"
#include "../prologue/split_hidden.cuh"

namespace lm_head {

struct LoadFloatAligned {  // hiddenSize and row stride multiples of 4, 16-byte aligned
  static __device__ float4 load(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
    if (column >= args.hiddenSize) return {};
    return __ldg(
        reinterpret_cast<const float4*>(static_cast<const float*>(args.weight) + id * args.weightRowStride + column));
  }
};

struct LoadFloatStrided {
  static __device__ float4 load(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
    const float* source =
        static_cast<const float*>(args.weight) + id * args.weightRowStride + column * args.weightColumnStride;
    const int64_t stride = args.weightColumnStride, left = args.hiddenSize - column;
    return {left > 0 ? __ldg(source) : 0.0f, left > 1 ? __ldg(source + stride) : 0.0f,
            left > 2 ? __ldg(source + 2 * stride) : 0.0f, left > 3 ? __ldg(source + 3 * stride) : 0.0f};
  }
};

template <class Half>
struct LoadHalf {
  static __device__ float4 load(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
    if (column >= args.weightRowStride) return {};
    const uint2 bits = __ldg(
        reinterpret_cast<const uint2*>(static_cast<const Half*>(args.weight) + id * args.weightRowStride + column));
    const Half* four = reinterpret_cast<const Half*>(&bits);
    using Traits = SplitTraits<Half>;
    return {Traits::widen(four[0]), Traits::widen(four[1]), Traits::widen(four[2]), Traits::widen(four[3])};
  }
};

}  // namespace lm_head
