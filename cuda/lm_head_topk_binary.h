// Binary heads: how many rows a block serves and in which form it needs hidden, and the launches.
#pragma once

#include "lm_head_topk_plan.cuh"

namespace lm_head {

// Quantized hidden of all row groups, in scratch memory.
struct BinaryHidden {
  void* operand;     // rowGroups * rowsPerBlock rows of a byte a column, padded to blocks
  int* bases;        // as many rows, an integer a group, padded to quads
  float* rowScales;  // [rows]
};

// What runs: `bulk`, copies that compute capability 9.0 has and later ones; `warpgroups`, products that 9.0 alone has.
struct BinaryWay {
  bool bulk;
  bool warpgroups;
};

BinaryWay binaryWay(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device);

ScorerShape binaryShape(const LmHeadTopKArgs& args, const BinaryWay& way, const Device& device);

// Whether one row of hidden fits in shared memory.
bool binaryFits(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device);

// Elements of the three arrays.
struct BinaryHiddenSizes {
  size_t operandBytes, bases, rowScales;
};
BinaryHiddenSizes binaryHiddenSizes(const Plan& plan);

// Quantizes hidden and empties the pool.
cudaError_t launchQuantize(const Plan& plan, const BinaryWay& way, const BinaryHidden& hidden, cudaStream_t stream);

cudaError_t launchBinary(const Plan& plan, const BinaryWay& way, const BinaryHidden& hidden, Key* lists,
                         Key* againLists, cudaStream_t stream);

// --- compute capability 9.0 ---

ScorerShape binaryHopperShape(const LmHeadTopKArgs& args);

cudaError_t launchBinaryHopper(const Plan& plan, const BinaryHidden& hidden, Key* lists, Key* againLists,
                               cudaStream_t stream);

}  // namespace lm_head
