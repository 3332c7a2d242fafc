// Makes the index by which the sweep finds adjusted ids.
#pragma once

#include <cuda_runtime_api.h>

#include "../../../kernels/core/lm_head_topk_args.h"

namespace lm_head {

// Fills args.options.adjust.index, whose memory is there; without adjusted ids it does nothing. Comes behind another
// prologue, which has waited for all that was enqueued before, and runs beside it.
cudaError_t launchIndexAdjusted(const LmHeadTopKArgs& args, cudaStream_t stream);

}  // namespace lm_head
