// The two halves of the vocab-parallel argmax, on the CPU and on the GPU.
#pragma once

#include "../cuda/vocab_parallel_argmax_args.h"
#include "tf_api.h"

namespace lm_head {

void localArgmaxCpu(const LocalArgmaxArgs& args);
void localArgmaxGpu(const OpContext& context, const LocalArgmaxArgs& args);

// candidates [ranks, rows, kArgmaxSlices, 2] -> tokens [rows]
void pickFromCandidatesCpu(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens);
void pickFromCandidatesGpu(const OpContext& context, const int32_t* candidates, int64_t ranks, int64_t rows,
                           int32_t* tokens);

}  // namespace lm_head
