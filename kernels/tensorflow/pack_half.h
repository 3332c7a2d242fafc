// The two implementations of the PackHalf op.
#pragma once

#include "../core/pack_half_args.h"
#include "tf_api.h"

namespace lm_head {

void packHalfCpu(const PackHalfArgs& args);
void packHalfGpu(const OpContext& context, const PackHalfArgs& args);

}  // namespace lm_head
