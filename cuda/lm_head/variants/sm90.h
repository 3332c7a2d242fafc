// Dense heads on GPUs of compute capability 9.0 (H100, H200): the same parts and lists, other instructions. float32
// weights must be row-major, 16-byte aligned and of a hiddenSize that is a multiple of 4.
#pragma once

#include "../plan.cuh"
#include "../prologue/split_hidden.cuh"

namespace lm_head {

ScorerShape hopperHalfShape(const LmHeadTopKArgs& args);

cudaError_t launchHopperHalf(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists,
                             cudaStream_t stream);

ScorerShape hopperFloatShape(const LmHeadTopKArgs& args);

cudaError_t launchHopperFloat(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists,
                              cudaStream_t stream);

}  // namespace lm_head
