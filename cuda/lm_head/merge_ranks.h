// The top k of a vocabulary that is cut into shards: every rank has sorted its own k best, and these lists are merged.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "../../kernels/core/log_sum.h"
#include "../common/gather_step.h"

namespace lm_head {

// What a rank contributes: lists [rows, k], best first, with global ids; id -1 where the rank has fewer than k. And, if
// the log-sum-exp is wanted, the LogSum of each row's scores, whose sum over the ranks has the bits of the whole
// vocabulary where that is cut at multiples of kLogSumTermIds.
struct TopKBlock {
  float* values;
  int32_t* indices;
  int32_t* logSumState;  // [rows, LogSum::kWords]; null when not wanted

  // A multiple of 16, so that blocks can lie behind each other.
  static int64_t bytes(int64_t rows, int64_t k, bool logSumExp) {
    return (rows * (2 * k + (logSumExp ? LogSum::kWords : 0)) * 4 + 15) / 16 * 16;
  }

  TopKBlock(void* memory, int64_t rows, int64_t k, bool logSumExp)
      : values(static_cast<float*>(memory)),
        indices(reinterpret_cast<int32_t*>(values + rows * k)),
        logSumState(logSumExp ? indices + rows * k : nullptr) {}
};

struct MergeTopKArgs {
  const void* blocks;  // one TopKBlock a rank, behind each other
  int64_t ranks;
  int64_t rows;
  int64_t k;
  float* values;     // [rows, k]; -inf where all ranks together have fewer than k
  int32_t* indices;  // [rows, k]; -1 there
  float* logSumExp;  // [rows], or null
  // The step that brought the blocks here. Where it failed, values and logSumExp are NaN and indices -1.
  GatherStep gather;
};

// Both only enqueue on `stream`: no allocation, no synchronization, no state. The same bits on every rank.
cudaError_t launchMergeTopK(const MergeTopKArgs& args, cudaStream_t stream);

// Makes lists of k from lists [rows, listSize] of a rank that has no more than that; `values` and `indices` are not
// read when listSize is 0. logSumState, if wanted: that of no score for a rank without ids, else it is left alone.
cudaError_t launchPadTopK(const float* values, const int32_t* indices, int64_t listSize, int64_t rows, int64_t k,
                          const TopKBlock& block, cudaStream_t stream);

}  // namespace lm_head
