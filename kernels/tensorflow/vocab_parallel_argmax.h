// The vocab-parallel argmax and its two halves, on the CPU and on the GPU.
#pragma once

#include "../cpu/vocab_parallel_argmax_cpu.h"
#include "../group/tensor_parallel_group.h"
#include "tf_api.h"

namespace lm_head {

void localArgmaxGpu(const OpContext& context, const LocalArgmaxArgs& args);

// candidates [ranks, rows, kArgmaxSlices, 2] -> tokens [rows]
void pickFromCandidatesGpu(const OpContext& context, const int32_t* candidates, int64_t ranks, int64_t rows,
                           int32_t* tokens);

// Both at once, where one shard is the whole vocabulary; args.candidates is scratch memory.
void argmaxGpu(const OpContext& context, const LocalArgmaxArgs& args, int32_t* tokens);

// With the candidates of all ranks in between. args.candidates: [ranks, rows, kArgmaxSlices, 2], scratch memory.
void groupArgmaxGpu(const OpContext& context, const LocalArgmaxArgs& args, TensorParallelGroup& group, int32_t* tokens);

}  // namespace lm_head
