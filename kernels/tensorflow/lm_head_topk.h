// The implementations of the ops that score a head.
#pragma once

#include "../cpu/lm_head/lm_head.h"
#include "../group/tensor_parallel_group.h"
#include "tf_api.h"

namespace lm_head {

// `op`: for errors.
void lmHeadTopKGpu(const OpContext& context, const LmHeadTopKArgs& args, const char* op = "LmHeadTopK");

// Scores of ids [rows, count], see lmHeadScoresCpu.
void lmHeadScoresGpu(const OpContext& context, const LmHeadTopKArgs& args, const int32_t* ids, int64_t count,
                     float* scores);

template <Device kDevice>
void sweepOn([[maybe_unused]] const OpContext& context, const LmHeadTopKArgs& args, [[maybe_unused]] const char* op) {
  if constexpr (kDevice == Device::kGpu) {
    lmHeadTopKGpu(context, args, op);
  } else {
    lmHeadTopKCpu(args);
  }
}

// The same over the vocabularies of all ranks, of which args has this rank's; args.k may be larger than that. Entries
// behind the whole vocabulary are (-inf, -1).
void lmHeadTopKGroupGpu(const OpContext& context, const LmHeadTopKArgs& args, TensorParallelGroup& group);

}  // namespace lm_head
