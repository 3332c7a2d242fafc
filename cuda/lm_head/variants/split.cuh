// What variants share whose hidden is split into hi/lo parts: where these lie, and their prologue.
#pragma once

#include "../launch_sweep.cuh"
#include "../prologue/split_hidden.cuh"

namespace lm_head {

inline int64_t partsStride(const LmHeadTopKArgs& args) {
  return (args.hiddenSize + kPartsMultiple - 1) / kPartsMultiple * kPartsMultiple;
}

// Parts of whole row groups, then how each row was split.
template <class Number>
struct SplitHidden {
  static int64_t partRows(const Plan& plan) { return static_cast<int64_t>(plan.rowGroups) * plan.shape.rowsPerBlock; }
  static size_t partBytes(const Plan& plan) { return 2 * partRows(plan) * partsStride(plan.args) * sizeof(Number); }
  static size_t bytes(const Plan& plan) { return partBytes(plan) + plan.args.rows * sizeof(SplitRow); }

  static SplitParams params(const Plan& plan, const void* hidden) {
    const auto* splitRows = reinterpret_cast<const SplitRow*>(static_cast<const char*>(hidden) + partBytes(plan));
    return {hidden, partsStride(plan.args), splitRows};
  }

  static cudaError_t prepare(const Plan& plan, const RowPool& pool, void* hidden, cudaStream_t stream) {
    const LmHeadTopKArgs& args = plan.args;
    splitHiddenKernel<Number><<<static_cast<unsigned>(partRows(plan)), 256, 0, stream>>>(
        args.hidden, args.rows, args.hiddenSize, partsStride(args), static_cast<Number*>(hidden),
        const_cast<SplitRow*>(params(plan, hidden).splitRows), pool);
    return cudaGetLastError();
  }
};

template <class Half>
constexpr HeadFormat kHalfFormat = HeadFormat::kFloat16;
template <>
inline constexpr HeadFormat kHalfFormat<__nv_bfloat16> = HeadFormat::kBfloat16;

// Whether four neighbouring weights of a float32 head can be loaded at once, from any id and column that is a multiple
// of 4.
inline bool isAligned(const LmHeadTopKArgs& args) {
  return args.weightColumnStride == 1 && args.weightRowStride % 4 == 0 && args.hiddenSize % 4 == 0 &&
         reinterpret_cast<uintptr_t>(args.weight) % 16 == 0;
}

}  // namespace lm_head
