// PackHalf on the CPU.
#pragma once

#include "../core/pack_half_args.h"

namespace lm_head {

void packHalfCpu(const PackHalfArgs& args);

}  // namespace lm_head
