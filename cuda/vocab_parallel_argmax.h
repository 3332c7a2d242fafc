// Argmax over a vocabulary that is cut into shards: every shard is scanned once, 64 bytes a row and shard are all that
// has to meet, and one pick makes the token. The same token as argmax over the concatenated logits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "vocab_parallel_argmax_args.h"

namespace lm_head {

// Both only enqueue on `stream`: no allocation, no synchronization, no state.
cudaError_t launchLocalArgmax(const LocalArgmaxArgs& args, cudaStream_t stream);

// candidates [ranks, rows, kArgmaxSlices, 2] -> tokens [rows]
cudaError_t launchPickFromCandidates(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens,
                                     cudaStream_t stream);

}  // namespace lm_head
