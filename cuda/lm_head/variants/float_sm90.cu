// Compiled for sm_90a alone: no other target has these instructions.
#include "sm90.h"
#include "../mainloops/wgmma_float.cuh"
#include "sm90_launch.cuh"

namespace lm_head {

ScorerShape hopperFloatShape(const LmHeadTopKArgs& args) { return hopperShape<float>(args.rows); }

cudaError_t launchHopperFloat(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists,
                              cudaStream_t stream) {
  return launchHopper<float, LoadFloatAligned>(plan, params, lists, againLists, stream);
}

}  // namespace lm_head
