// The bits and scales of a binary head to the layout of common/binary_layout.h, scales rounded to fp16; and back.
#pragma once

#include <cuda_runtime_api.h>

#include "../../kernels/core/pack_binary_args.h"

namespace lm_head {

cudaError_t launchPackBinary(const PackBinaryArgs& args, cudaStream_t stream);
cudaError_t launchUnpackBinary(const UnpackBinaryArgs& args, cudaStream_t stream);

}  // namespace lm_head
