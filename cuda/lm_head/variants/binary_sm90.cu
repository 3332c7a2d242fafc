// Compiled for sm_90a alone: no other target has these instructions.
#include "binary.h"
#include "../mainloops/binary_wgmma.cuh"

namespace lm_head {

ScorerShape binaryHopperShape(const LmHeadTopKArgs& args) {
  using Scorer = BinaryHopperScorer;
  return ScorerShape::of<Scorer>(Scorer::kRows, Scorer::sharedBytes({args.hiddenSize, args.groupSize}));
}

cudaError_t launchBinaryHopper(const Plan& plan, const unsigned char* hidden, Key* lists, Key* againLists,
                               cudaStream_t stream) {
  const BinaryScorerParams params{hidden};
  return launchScan<BinaryHopperScorer>(plan, params, lists, againLists, stream);
}

}  // namespace lm_head
