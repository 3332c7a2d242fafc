// Compiled for sm_90a alone: no other target has these instructions.
#include "lm_head_topk_binary.h"
#include "lm_head_topk_binary_hopper.cuh"

namespace lm_head {
namespace {

using Scorer = BinaryHopperScorer<3, 3>;

}  // namespace

ScorerShape binaryHopperShape(const LmHeadTopKArgs& args) {
  return {Scorer::kRows, Scorer::kTileVocab, Scorer::kWorkers, Scorer::sharedBytes({args.hiddenSize, args.groupSize})};
}

cudaError_t launchBinaryHopper(const Plan& plan, const unsigned char* hidden, Key* lists, Key* againLists,
                               cudaStream_t stream) {
  const BinaryScorerParams params{hidden};
  return launchScan<Scorer>(plan, params, lists, againLists, stream);
}

}  // namespace lm_head
