// LmHeadTopK on the CPU.
#pragma once

#include "../../core/lm_head_topk_args.h"

namespace lm_head {

void lmHeadTopKCpu(const LmHeadTopKArgs& args);

}  // namespace lm_head
