// Rows of float32 to 8 bits: scale = absmax / 127, q = round-half-even(h / scale). A row that holds NaN or an infinity
// gets q 0 and scale NaN.
#pragma once

#include <cuda_runtime_api.h>

#include "../../kernels/core/quantize_activations_args.h"

namespace lm_head {

cudaError_t launchQuantizeActivations(const QuantizeActivationsArgs& args, cudaStream_t stream);

}  // namespace lm_head
