// BinarizeHead on the CPU.
#pragma once

#include "../core/binarize_head_args.h"

namespace lm_head {

void binarizeHeadCpu(const BinarizeHeadArgs& args);

}  // namespace lm_head
