// Compiled for sm_90a alone: no other target has these instructions.
#include "common/tensor_map.cuh"
#include "lm_head_topk_hopper.cuh"
#include "lm_head_topk_hopper.h"
#include "lm_head_topk_plain_rows.cuh"

namespace lm_head {
namespace {

// Few rows: small tiles balance better. Many rows: large tiles, so that parts are read less often for each weight, and
// clusters of blocks that read them together.
template <class Half, int kRows>
using ScorerFor = HopperScorer<Half, 2 * kRows, kRows <= 16 ? 2 : 4,
                               kRows <= 8    ? 8
                               : kRows == 16 ? 7
                                             : 4,
                               kRows <= 32 ? 1 : 2>;

template <class Half, int kRows>
cudaError_t launch(const Plan& plan, const SplitParams& halfParams, Key* lists, Key* againLists, cudaStream_t stream) {
  using Scorer = ScorerFor<Half, kRows>;
  const LmHeadTopKArgs& args = plan.scan.args;
  HopperScorerParams params{};
  params.splitRows = halfParams.splitRows;
  // Calls mostly come with the same weights, and often with the same scratch memory.
  static thread_local TensorMap<Half> weightMap, partsMap;
  RETURN_IF_ERROR(weightMap.get(
      {args.weight, args.vocabSize, args.weightRowStride, Scorer::kSmallTileVocab, Scorer::kChunk}, &params.weight));
  RETURN_IF_ERROR(partsMap.get({halfParams.parts, static_cast<int64_t>(plan.rowGroups) * 2 * kRows,
                                halfParams.partsStride, Scorer::kPartBox, Scorer::kChunk},
                               &params.parts));
  using RestScorer = PlainRowsScorer<LoadHalf<Half>, Scorer::kWorkers>;
  return launchScan<Scorer, RestScorer>(plan, params, lists, againLists, stream);
}

template <class Half>
cudaError_t launch(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists, cudaStream_t stream) {
  switch (plan.scorer.rowsPerBlock) {
    case 4:
      return launch<Half, 4>(plan, params, lists, againLists, stream);
    case 8:
      return launch<Half, 8>(plan, params, lists, againLists, stream);
    case 16:
      return launch<Half, 16>(plan, params, lists, againLists, stream);
    case 32:
      return launch<Half, 32>(plan, params, lists, againLists, stream);
    default:
      return launch<Half, 64>(plan, params, lists, againLists, stream);
  }
}

template <int kRows>
ScorerShape shapeFor() {
  using Scorer = ScorerFor<__half, kRows>;
  return {kRows, Scorer::kTileVocab, Scorer::kWorkers, Scorer::kSharedBytes, Scorer::kCluster};
}

}  // namespace

ScorerShape hopperShape(const LmHeadTopKArgs& args) {
  if (args.rows <= 4) return shapeFor<4>();
  if (args.rows <= 8) return shapeFor<8>();
  if (args.rows <= 16) return shapeFor<16>();
  return args.rows <= 32 ? shapeFor<32>() : shapeFor<64>();
}

cudaError_t launchHopper(const Plan& plan, const SplitParams& params, Key* lists, Key* againLists,
                         cudaStream_t stream) {
  return plan.scan.args.format == HeadFormat::kBfloat16 ? launch<__nv_bfloat16>(plan, params, lists, againLists, stream)
                                                        : launch<__half>(plan, params, lists, againLists, stream);
}

}  // namespace lm_head
