// From a plan to the scorers for compute capability 9.0: host code that 16-bit and float32 heads share.
#pragma once

#include <type_traits>

#include "../../pipeline/tensor_map.cuh"
#include "../mainloops/wgmma_dense.cuh"
#include "../mainloops/fp32_rows.cuh"
#include "../plan.cuh"

namespace lm_head {

// visit(std::integral_constant<int, n>()) for n rows a block: the fewest that serve `rows`, or the most.
template <class Visit>
auto visitRows(int64_t rows, Visit visit) {
  if (rows <= 4) return visit(std::integral_constant<int, 4>());
  if (rows <= 8) return visit(std::integral_constant<int, 8>());
  if (rows <= 16) return visit(std::integral_constant<int, 16>());
  if (rows <= 32) return visit(std::integral_constant<int, 32>());
  return visit(std::integral_constant<int, 64>());
}

template <class Number>
ScorerShape hopperShape(int64_t rows) {
  return visitRows(rows, [](auto count) -> ScorerShape {
    using Scorer = HopperScorer<Number, decltype(count)::value>;
    return ScorerShape::of<Scorer>(Scorer::kRows, Scorer::kSharedBytes);
  });
}

// Load: how plain arithmetic loads weights, for the rows that are not split.
template <class Number, class Load>
cudaError_t launchHopper(const Plan& plan, const SplitParams& split, Key* lists, Key* againLists, cudaStream_t stream) {
  return visitRows(plan.scorer.rowsPerBlock, [&](auto count) {
    using Scorer = HopperScorer<Number, decltype(count)::value>;
    const LmHeadTopKArgs& args = plan.scan.args;
    HopperScorerParams params{};
    params.splitRows = split.splitRows;
    // Calls mostly come with the same weights, and often with the same scratch memory.
    static thread_local TensorMap<Number> weightMap, partsMap;
    RETURN_IF_ERROR(weightMap.get(
        {args.weight, args.vocabSize, args.weightRowStride, Scorer::kSmallTileVocab, Scorer::kChunk}, &params.weight));
    RETURN_IF_ERROR(partsMap.get({split.parts, static_cast<int64_t>(plan.rowGroups) * Scorer::kColumns,
                                  split.partsStride, Scorer::kColumns, Scorer::kChunk},
                                 &params.parts));
    using RestScorer = PlainRowsScorer<Load, Scorer::kWorkers>;
    return launchScan<Scorer, RestScorer>(plan, params, lists, againLists, stream);
  });
}

}  // namespace lm_head
