// 16-bit heads on compute capability 9.0. Compiled for sm_90a alone: no other target has these instructions.
#include "../mainloops/wgmma_half.cuh"
#include "dense_sm90.cuh"
#include "table.h"

namespace lm_head {
namespace {

template <class Half>
bool supportsHalf(const LmHeadTopKArgs& args, const GpuInfo& gpu, Path path) {
  return path == Path::kBest && gpu.computeCapability == 90 && args.format == kHalfFormat<Half>;
}

template <class Half>
constexpr Variant kHalf{supportsHalf<Half>, sm90Shape<Half>, SplitHidden<Half>::bytes, SplitHidden<Half>::prepare,
                        sm90Sweep<Half, LoadHalf<Half>>};

}  // namespace

const Variant kBfloat16Sm90 = kHalf<__nv_bfloat16>, kFloat16Sm90 = kHalf<__half>;

}  // namespace lm_head
