// The two implementations of the PackHalf op.
#pragma once

#include "../cpu/pack_half_cpu.h"
#include "tf_api.h"

namespace lm_head {

void packHalfGpu(const OpContext& context, const PackHalfArgs& args);

}  // namespace lm_head
