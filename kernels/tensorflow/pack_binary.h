// The two implementations of the PackBinary op, and of its inverse.
#pragma once

#include "../core/pack_binary_args.h"
#include "tf_api.h"

namespace lm_head {

void packBinaryCpu(const PackBinaryArgs& args);
void packBinaryGpu(const OpContext& context, const PackBinaryArgs& args);

void unpackBinaryCpu(const UnpackBinaryArgs& args);
void unpackBinaryGpu(const OpContext& context, const UnpackBinaryArgs& args);

}  // namespace lm_head
