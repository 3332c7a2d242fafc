// Compiled for sm_90a alone: no other target has these instructions.
#include "lm_head_topk_hopper.cuh"
#include "lm_head_topk_hopper.h"

namespace lm_head {
namespace {

// The driver's encoder, found at run time: the library loads without a driver too.
cudaError_t tensorMapEncoder(decltype(&cuTensorMapEncodeTiled)* encoder) {
  static void* function = nullptr;
  if (function == nullptr) {
    cudaDriverEntryPointQueryResult result;
    void* found = nullptr;
    RETURN_IF_ERROR(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess) return cudaErrorNotSupported;
    function = found;
  }
  *encoder = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  return cudaSuccess;
}

// 16-bit elements, [rows, columns] with rows of `columns` elements, copied in boxes of boxRows x boxColumns.
template <class Half>
cudaError_t encodeTensorMap(const void* data, int64_t rows, int64_t columns, int boxRows, int boxColumns,
                            CUtensorMap* map) {
  decltype(&cuTensorMapEncodeTiled) encode = nullptr;
  RETURN_IF_ERROR(tensorMapEncoder(&encode));
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(columns) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(boxColumns), static_cast<cuuint32_t>(boxRows)};
  const cuuint32_t steps[] = {1, 1};
  const auto type = sizeof(Half) == 2 && SplitTraits<Half>::kLowShift == 0 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                                           : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  const CUresult result =
      encode(map, type, 2, const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

// Few rows: small tiles balance better. Many rows: large tiles, so that parts are read less often for each weight.
template <class Half, int kRows>
using ScorerFor = HopperScorer<Half, 2 * kRows, kRows <= 16 ? 2 : 4,
                               kRows <= 8    ? 8
                               : kRows == 16 ? 7
                                             : 4>;

template <class Half, int kRows>
cudaError_t launch(const Plan& plan, const HalfScorerParams& halfParams, Key* lists, Key* againLists,
                   cudaStream_t stream) {
  using Scorer = ScorerFor<Half, kRows>;
  const LmHeadTopKArgs& args = plan.scan.args;
  HopperScorerParams params{};
  params.splitRows = halfParams.splitRows;
  RETURN_IF_ERROR(encodeTensorMap<Half>(args.weight, args.vocabSize, args.weightRowStride, Scorer::kTileVocab,
                                        Scorer::kChunk, &params.weight));
  RETURN_IF_ERROR(encodeTensorMap<Half>(halfParams.parts, static_cast<int64_t>(plan.rowGroups) * 2 * kRows,
                                        halfParams.partsStride, 2 * kRows, Scorer::kChunk, &params.parts));
  return launchScan<Scorer>(plan, params, lists, againLists, stream);
}

template <class Half>
cudaError_t launch(const Plan& plan, const HalfScorerParams& params, Key* lists, Key* againLists, cudaStream_t stream) {
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
  return {kRows, Scorer::kTileVocab, Scorer::kWorkers, Scorer::kSharedBytes};
}

}  // namespace

ScorerShape hopperShape(const LmHeadTopKArgs& args) {
  if (args.rows <= 4) return shapeFor<4>();
  if (args.rows <= 8) return shapeFor<8>();
  if (args.rows <= 16) return shapeFor<16>();
  return args.rows <= 32 ? shapeFor<32>() : shapeFor<64>();
}

cudaError_t launchHopper(const Plan& plan, const HalfScorerParams& params, Key* lists, Key* againLists,
                         cudaStream_t stream) {
  return plan.scan.args.format == HeadFormat::kBfloat16 ? launch<__nv_bfloat16>(plan, params, lists, againLists, stream)
                                                        : launch<__half>(plan, params, lists, againLists, stream);
}

}  // namespace lm_head
