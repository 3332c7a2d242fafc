// Binary heads: how many rows a block serves and in which form it needs hidden, and the launches.
#pragma once

#include "lm_head_topk_plan.cuh"

namespace lm_head {

// Quantized hidden of all row groups, in scratch memory.
struct BinaryHidden {
  void* operand;     // rowGroups * rowsPerBlock rows of 32 bytes a 32 columns: bit planes, or bytes
  int* bases;        // [row groups, rowsPerBlock, groups padded to quads], or with groups before rows for bytes
  float* rowScales;  // [rows]
};

// bulk: with bulk copies, from compute capability 9.0 on.
ScorerShape binaryShape(const LmHeadTopKArgs& args, bool bulk, const Device& device);

// Elements of the three arrays.
struct BinaryHiddenSizes {
  size_t operandBytes, bases, rowScales;
};
BinaryHiddenSizes binaryHiddenSizes(const Plan& plan);

// Quantizes hidden and empties the pool.
cudaError_t launchQuantize(const Plan& plan, const BinaryHidden& hidden, cudaStream_t stream);

cudaError_t launchBinary(const Plan& plan, bool bulk, const BinaryHidden& hidden, Key* lists, Key* againLists,
                         cudaStream_t stream);

}  // namespace lm_head
