// The two implementations of the LmHeadTopK op.
#pragma once

#include "../cuda/lm_head_topk_args.h"
#include "tf_api.h"

namespace lm_head {

void lmHeadTopKCpu(const LmHeadTopKArgs& args);
void lmHeadTopKGpu(const OpContext& context, const LmHeadTopKArgs& args);

}  // namespace lm_head
