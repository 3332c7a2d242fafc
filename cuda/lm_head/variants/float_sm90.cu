// float32 heads on compute capability 9.0, where weights are row-major and aligned. Compiled for sm_90a alone: no other
// target has these instructions.
#include "../mainloops/wgmma_float.cuh"
#include "dense_sm90.cuh"
#include "table.h"

namespace lm_head {
namespace {

bool supportsFloat(const LmHeadTopKArgs& args, const GpuInfo& gpu, Path path) {
  return path == Path::kBest && gpu.computeCapability == 90 && args.format == HeadFormat::kFloat32 && isAligned(args);
}

}  // namespace

const Variant kFloat32Sm90{supportsFloat, sm90Shape<float>, SplitHidden<float>::bytes, SplitHidden<float>::prepare,
                           sm90Sweep<float, LoadFloatAligned>};

}  // namespace lm_head
