// 16-bit heads on every GPU from compute capability 8.0 on.
#include "../mainloops/fp32_rows.cuh"
#include "../mainloops/mma_half.cuh"
#include "split.cuh"
#include "table.h"

namespace lm_head {
namespace {

constexpr int kFewStages = 2, kManyStages = 4;

// Rows a block: 4 for each tile of 8 columns.
template <int kStages, class Visit>
auto visitMainloop(int rows, Visit visit) {
  return visitRows<4, 8, 16, 32>(rows, [&](auto count) {
    return visit(static_cast<MmaHalfMainloop<__half, decltype(count)::value / 4, kStages>*>(nullptr));
  });
}

template <int kStages>
MainloopShape shapeOf(int rows) {
  return visitMainloop<kStages>(rows, [](auto* type) {
    using Mainloop = std::remove_pointer_t<decltype(type)>;
    return MainloopShape::of<Mainloop>(Mainloop::kRows, Mainloop::kSharedBytes);
  });
}

// Deep rings where lists fit beside them.
MainloopShape halfShape(const LmHeadTopKArgs& args, const GpuInfo& gpu) {
  const auto budget = gpu.sharedBytes - gpu.sharedBytes / 16;
  const auto fits = [&](int count) { return shapeOf<kFewStages>(count).sharedBytes <= budget; };
  const int rows = chooseRows(args.rows, 4, 32, fits);
  if (!args.isPlain()) return shapeOf<kFewStages>(args.rows > 8 && fits(32) ? 32 : 8);
  const MainloopShape deep = shapeOf<kManyStages>(rows);
  return deep.sharedBytes <= budget ? deep : shapeOf<kFewStages>(rows);
}

template <class Half, int kStages>
cudaError_t launch(const Plan& plan, const SweepParams& sweep, const SplitParams& params, cudaStream_t stream) {
  return visitRows<4, 8, 16, 32>(plan.shape.rowsPerBlock, [&](auto count) {
    using Mainloop = MmaHalfMainloop<Half, decltype(count)::value / 4, kStages>;
    using Rest = Fp32RowsMainloop<LoadHalf<Half>, Mainloop::kWorkers>;
    constexpr int kRows = decltype(count)::value;
    constexpr bool kWithOptions = kStages == kFewStages && (kRows == 8 || kRows == 32);
    return launchSweep<kWithOptions, Mainloop, Rest>(plan, sweep, params, stream);
  });
}

template <class Half>
cudaError_t halfSweep(const Plan& plan, const SweepParams& sweep, const void* hidden, cudaStream_t stream) {
  const SplitParams params = SplitHidden<Half>::params(plan, hidden);
  if (plan.shape.sharedBytes == shapeOf<kManyStages>(plan.shape.rowsPerBlock).sharedBytes)
    return launch<Half, kManyStages>(plan, sweep, params, stream);
  return launch<Half, kFewStages>(plan, sweep, params, stream);
}

template <class Half>
bool supportsHalf(const LmHeadTopKArgs& args, const GpuInfo&, Path) {
  return args.format == kHalfFormat<Half>;
}

template <class Half>
constexpr Variant kHalf{supportsHalf<Half>, halfShape, SplitHidden<Half>::bytes, SplitHidden<Half>::prepare,
                        halfSweep<Half>};

}  // namespace

const Variant kBfloat16 = kHalf<__nv_bfloat16>, kFloat16 = kHalf<__half>;

}  // namespace lm_head
