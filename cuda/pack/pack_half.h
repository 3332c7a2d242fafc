// Rounds a float32 matrix to bfloat16 or float16, to the nearest and ties to even, with rows padded with zeros.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "../../kernels/core/pack_half_args.h"

namespace lm_head {

cudaError_t launchPackHalf(const PackHalfArgs& args, cudaStream_t stream);

}  // namespace lm_head
