// Compiled for sm_90a alone: no other target has these instructions.
#include "common/tensor_map.cuh"
#include "lm_head_topk_hopper.h"
#include "lm_head_topk_hopper_float.cuh"
#include "lm_head_topk_plain_rows.cuh"

namespace lm_head {
namespace {

template <int kRows>
using ScorerFor = HopperFloatScorer<2 * kRows, kRows <= 16   ? 8
                                               : kRows == 32 ? 6
                                                             : 5>;

template <int kRows>
cudaError_t launch(const Plan& plan, const SplitParams& splitParams, Key* lists, Key* againLists, cudaStream_t stream) {
  using Scorer = ScorerFor<kRows>;
  const LmHeadTopKArgs& args = plan.scan.args;
  HopperScorerParams params{};
  params.splitRows = splitParams.splitRows;
  // Calls mostly come with the same weights, and often with the same scratch memory.
  static thread_local TensorMap<float> weightMap, partsMap;
  RETURN_IF_ERROR(weightMap.get(
      {args.weight, args.vocabSize, args.weightRowStride, Scorer::kSmallTileVocab, Scorer::kChunk}, &params.weight));
  RETURN_IF_ERROR(partsMap.get({splitParams.parts, static_cast<int64_t>(plan.rowGroups) * 2 * kRows,
                                splitParams.partsStride, Scorer::kPartBox, Scorer::kChunk},
                               &params.parts));
  using RestScorer = PlainRowsScorer<LoadFloatAligned, Scorer::kWorkers>;
  return launchScan<Scorer, RestScorer>(plan, params, lists, againLists, stream);
}

template <int kRows>
ScorerShape shapeFor() {
  using Scorer = ScorerFor<kRows>;
  return {kRows, Scorer::kTileVocab, Scorer::kWorkers, Scorer::kSharedBytes};
}

}  // namespace

ScorerShape hopperFloatShape(const LmHeadTopKArgs& args) {
  if (args.rows <= 4) return shapeFor<4>();
  if (args.rows <= 8) return shapeFor<8>();
  if (args.rows <= 16) return shapeFor<16>();
  return args.rows <= 32 ? shapeFor<32>() : shapeFor<64>();
}

cudaError_t launchHopperFloat(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists,
                              cudaStream_t stream) {
  switch (plan.scorer.rowsPerBlock) {
    case 4:
      return launch<4>(plan, params, lists, againLists, stream);
    case 8:
      return launch<8>(plan, params, lists, againLists, stream);
    case 16:
      return launch<16>(plan, params, lists, againLists, stream);
    case 32:
      return launch<32>(plan, params, lists, againLists, stream);
    default:
      return launch<64>(plan, params, lists, againLists, stream);
  }
}

}  // namespace lm_head
