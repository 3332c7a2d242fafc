// The two implementations of the BinarizeHead op.
#pragma once

#include "../core/binarize_head_args.h"
#include "tf_api.h"

namespace lm_head {

void binarizeHeadCpu(const BinarizeHeadArgs& args);
void binarizeHeadGpu(const OpContext& context, const BinarizeHeadArgs& args);

}  // namespace lm_head
