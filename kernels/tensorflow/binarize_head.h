// The two implementations of the BinarizeHead op.
#pragma once

#include "../cpu/binarize_head_cpu.h"
#include "tf_api.h"

namespace lm_head {

void binarizeHeadGpu(const OpContext& context, const BinarizeHeadArgs& args);

}  // namespace lm_head
