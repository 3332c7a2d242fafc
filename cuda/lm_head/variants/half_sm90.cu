// Compiled for sm_90a alone: no other target has these instructions.
#include "../mainloops/wgmma_half.cuh"
#include "sm90.h"
#include "sm90_launch.cuh"

namespace lm_head {

ScorerShape hopperHalfShape(const LmHeadTopKArgs& args) { return hopperShape<__half>(args.rows); }

cudaError_t launchHopperHalf(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists,
                             cudaStream_t stream) {
  if (plan.scan.args.format == HeadFormat::kBfloat16)
    return launchHopper<__nv_bfloat16, LoadHalf<__nv_bfloat16>>(plan, params, lists, againLists, stream);
  return launchHopper<__half, LoadHalf<__half>>(plan, params, lists, againLists, stream);
}

}  // namespace lm_head
