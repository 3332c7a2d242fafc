// From a plan to the main loops for compute capability 9.0, host code that 16-bit and float32 heads share.
#pragma once

#include "../../pipeline/tensor_map.cuh"
#include "../mainloops/fp32_rows.cuh"
#include "../mainloops/wgmma_dense.cuh"
#include "split.cuh"

namespace lm_head {

template <class Visit>
auto visitSm90Rows(int64_t rows, Visit visit) {
  return visitRows<4, 8, 16, 32, 64>(rows, visit);
}

// Rows of a block that have a kernel with options.
constexpr bool sm90RowsWithOptions(int rows) { return rows != 16 && rows != 32; }

template <class Number>
MainloopShape sm90Shape(const LmHeadTopKArgs& args, const GpuInfo&) {
  const int64_t rows = !args.isPlain() && args.rows > 8 ? 64 : args.rows;
  return visitSm90Rows(rows, [](auto count) -> MainloopShape {
    using Mainloop = WgmmaMainloop<Number, decltype(count)::value>;
    return MainloopShape::of<Mainloop>(Mainloop::kRows, Mainloop::kSharedBytes);
  });
}

// Load: how fp32 arithmetic loads weights, for the rows that are not split.
template <class Number, class Load>
cudaError_t sm90Sweep(const Plan& plan, const SweepParams& sweep, const void* hidden, cudaStream_t stream) {
  return visitSm90Rows(plan.shape.rowsPerBlock, [&](auto count) {
    using Mainloop = WgmmaMainloop<Number, decltype(count)::value>;
    const LmHeadTopKArgs& args = plan.args;
    const SplitParams split = SplitHidden<Number>::params(plan, hidden);
    WgmmaParams params{};
    params.splitRows = split.splitRows;
    // Calls mostly come with the same weights, and often with the same scratch memory.
    static thread_local TensorMap<Number> weightMap, partsMap;
    RETURN_IF_ERROR(weightMap.get({args.weight, args.vocabSize, args.weightRowStride, kGroupIds, Mainloop::kChunk},
                                  &params.weight));
    RETURN_IF_ERROR(partsMap.get(
        {split.parts, 2 * SplitHidden<Number>::partRows(plan), split.partsStride, Mainloop::kColumns, Mainloop::kChunk},
        &params.parts));
    constexpr bool kWithOptions = sm90RowsWithOptions(Mainloop::kRows);
    return launchSweep<kWithOptions, Mainloop, Fp32RowsMainloop<Load, Mainloop::kWorkers>>(plan, sweep, params, stream);
  });
}

}  // namespace lm_head
