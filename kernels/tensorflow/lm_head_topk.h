// The implementations of the LmHeadTopK op.
#pragma once

#include "../cpu/lm_head/lm_head.h"
#include "../group/tensor_parallel_group.h"
#include "tf_api.h"

namespace lm_head {

void lmHeadTopKGpu(const OpContext& context, const LmHeadTopKArgs& args);

// The same over the vocabularies of all ranks, of which args has this rank's; args.k may be larger than that. Entries
// behind the whole vocabulary are (-inf, -1).
void lmHeadTopKGroupGpu(const OpContext& context, const LmHeadTopKArgs& args, TensorParallelGroup& group);

}  // namespace lm_head
