// LmHeadTopK on the CPU.
#pragma once

#include "../../core/lm_head_topk_args.h"

namespace lm_head {

void lmHeadTopKCpu(const LmHeadTopKArgs& args);

// Scores of ids [rows, count], as they are returned; NaN for those that this head does not have. Of args, k and what
// belongs to reductions are not looked at.
void lmHeadScoresCpu(const LmHeadTopKArgs& args, const int32_t* ids, int64_t count, float* scores);

}  // namespace lm_head
