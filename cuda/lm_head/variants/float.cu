// float32 heads in fp32 arithmetic: on every GPU from compute capability 8.0 on, and for every layout.
#include "../mainloops/fp32_rows.cuh"
#include "split.cuh"
#include "table.h"

namespace lm_head {
namespace {

__global__ void clearPoolKernel(RowPool pool) {
  triggerDependentLaunch();
  clearRow(pool, blockIdx.x);
}

bool supportsFloat(const LmHeadTopKArgs& args, const GpuInfo&, Path) { return args.format == HeadFormat::kFloat32; }

// Rows of a block that have a kernel with options.
constexpr bool rowsWithOptions(int rows) { return rows == 1 || rows == 8; }

// A hidden row that does not fit in shared memory is read from where it lies: then the shape has no shared bytes.
MainloopShape floatShape(const LmHeadTopKArgs& args, const GpuInfo& gpu) {
  using OneRow = Fp32Mainloop<LoadFloatAligned, 1>;
  const auto bytes = [&](int rows) { return rows * OneRow::sharedBytes(args.hiddenSize); };
  const auto fits = [&](int rows) { return bytes(rows) <= gpu.sharedBytes - gpu.sharedBytes / 16; };
  int rows = chooseRows(args.rows, 1, 8, fits);
  if (!args.isPlain() && !rowsWithOptions(rows)) rows = fits(8) ? 8 : 1;
  if (fits(rows)) return MainloopShape::of<OneRow>(rows, bytes(rows));
  return MainloopShape::of<Fp32RowsMainloop<LoadFloatAligned, OneRow::kThreads>>(1, 0);
}

size_t noBytes(const Plan&) { return 0; }

cudaError_t clearPool(const Plan& plan, const RowPool& pool, void*, cudaStream_t stream) {
  clearPoolKernel<<<static_cast<unsigned>(plan.args.rows), 128, 0, stream>>>(pool);
  return cudaGetLastError();
}

template <class Load>
cudaError_t launch(const Plan& plan, const SweepParams& sweep, cudaStream_t stream) {
  if (plan.shape.sharedBytes == 0)
    return launchSweep<true, Fp32RowsMainloop<Load, Fp32Mainloop<Load, 1>::kThreads>>(plan, sweep, {nullptr}, stream);
  return visitRows<1, 2, 4, 8>(plan.shape.rowsPerBlock, [&](auto count) {
    constexpr int kRows = decltype(count)::value;
    return launchSweep<rowsWithOptions(kRows), Fp32Mainloop<Load, kRows>>(plan, sweep, {}, stream);
  });
}

cudaError_t floatSweep(const Plan& plan, const SweepParams& sweep, const void*, cudaStream_t stream) {
  return isAligned(plan.args) ? launch<LoadFloatAligned>(plan, sweep, stream)
                              : launch<LoadFloatStrided>(plan, sweep, stream);
}

}  // namespace

const Variant kFloat32{supportsFloat, floatShape, noBytes, clearPool, floatSweep};

}  // namespace lm_head
