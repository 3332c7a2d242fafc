// Binary heads: how many rows a block serves and in which form it needs hidden, and the launches.
#pragma once

#include "../plan.cuh"

namespace lm_head {

// What runs: `bulk`, copies that compute capability 9.0 has and later ones; `warpgroups`, products that 9.0 alone has.
struct BinaryWay {
  bool bulk;
  bool warpgroups;
};

BinaryWay binaryWay(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device);

ScorerShape binaryShape(const LmHeadTopKArgs& args, const BinaryWay& way, const Device& device);

// Whether one row of hidden fits in shared memory.
bool binaryFits(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device);

// Of quantized hidden, which lies in scratch memory: see BinaryHidden.
size_t binaryHiddenBytes(const Plan& plan, const BinaryWay& way);

// Quantizes hidden and empties the pool.
cudaError_t launchQuantize(const Plan& plan, const BinaryWay& way, unsigned char* hidden, cudaStream_t stream);

cudaError_t launchBinary(const Plan& plan, const BinaryWay& way, const unsigned char* hidden, Key* lists,
                         Key* againLists, cudaStream_t stream);

// --- compute capability 9.0 ---

ScorerShape binaryHopperShape(const LmHeadTopKArgs& args);

cudaError_t launchBinaryHopper(const Plan& plan, const unsigned char* hidden, Key* lists, Key* againLists,
                               cudaStream_t stream);

}  // namespace lm_head
