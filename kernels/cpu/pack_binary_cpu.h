// PackBinary and its inverse on the CPU.
#pragma once

#include "../core/pack_binary_args.h"

namespace lm_head {

void packBinaryCpu(const PackBinaryArgs& args);
void unpackBinaryCpu(const UnpackBinaryArgs& args);

}  // namespace lm_head
