// The two implementations of the PackBinary op, and of its inverse.
#pragma once

#include "../cpu/pack_binary_cpu.h"
#include "tf_api.h"

namespace lm_head {

void packBinaryGpu(const OpContext& context, const PackBinaryArgs& args);
void unpackBinaryGpu(const OpContext& context, const UnpackBinaryArgs& args);

}  // namespace lm_head
