// The two halves of the vocab-parallel argmax on the CPU.
#pragma once

#include "../core/vocab_parallel_argmax_args.h"

namespace lm_head {

void localArgmaxCpu(const LocalArgmaxArgs& args);

// candidates [ranks, rows, kArgmaxSlices, 2] -> tokens [rows]
void pickFromCandidatesCpu(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens);

}  // namespace lm_head
