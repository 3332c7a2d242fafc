// One bit a weight: its sign, and the mean magnitude of its group.
#pragma once

#include <cuda_runtime_api.h>

#include "../../kernels/core/binarize_head_args.h"

namespace lm_head {

cudaError_t launchBinarizeHead(const BinarizeHeadArgs& args, cudaStream_t stream);

}  // namespace lm_head
