// Argmax over a vocabulary that is cut into shards: every shard is scanned once, 64 bytes a row and shard are all that
// has to meet, and one pick makes the token. The same token as argmax over the concatenated logits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "../../kernels/core/vocab_parallel_argmax_args.h"
#include "../common/gather_step.h"

namespace lm_head {

// All only enqueue on `stream`: no allocation, no synchronization, no state.
cudaError_t launchLocalArgmax(const LocalArgmaxArgs& args, cudaStream_t stream);

// candidates [ranks, rows, kArgmaxSlices, 2], 8-byte aligned -> tokens [rows]. `gather`: the step that brought them
// here, if one did; tokens are -1 where it failed.
cudaError_t launchPickFromCandidates(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens,
                                     const GatherStep& gather, cudaStream_t stream);

// Both in one, where a single shard is the whole vocabulary: tokens [rows]; one kernel, unless rows lie side by side.
// args.candidates is scratch memory.
cudaError_t launchArgmax(const LocalArgmaxArgs& args, int32_t* tokens, cudaStream_t stream);

}  // namespace lm_head
