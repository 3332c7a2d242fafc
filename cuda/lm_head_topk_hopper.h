// 16-bit heads on GPUs of compute capability 9.0 (H100, H200): the same parts and lists, other instructions.
#pragma once

#include "lm_head_topk_plan.cuh"
#include "lm_head_topk_split.cuh"

namespace lm_head {

ScorerShape hopperShape(const LmHeadTopKArgs& args);

cudaError_t launchHopper(const Plan& plan, const HalfScorerParams& params, Key* lists, Key* againLists,
                         cudaStream_t stream);

}  // namespace lm_head
