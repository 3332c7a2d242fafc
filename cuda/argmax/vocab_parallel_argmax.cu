#include <algorithm>

#include "../common/cuda_check.h"
#include "vocab_parallel_argmax.cuh"

namespace lm_head {
namespace {

constexpr int64_t kMaxGridY = 65535;

unsigned gridY(int64_t blocks) { return static_cast<unsigned>(std::min(blocks, kMaxGridY)); }

// Whether neighbouring rows, not neighbouring columns, lie side by side.
bool isColumnMajor(const LocalArgmaxArgs& args) {
  return args.rowStride == 1 && args.columnStride != 1 && args.rows > 1;
}

template <class T, int kLanes, int kThreads>
cudaError_t launchScanColumns(const LocalArgmaxArgs& args, int mostRowThreads, cudaStream_t stream) {
  int rowThreads = 1;
  while (rowThreads < mostRowThreads && rowThreads * kLanes < args.rows) rowThreads *= 2;
  const dim3 grid(kArgmaxSlices, gridY((args.rows + rowThreads * kLanes - 1) / (rowThreads * kLanes)));
  scanColumnsKernel<T, kLanes, kThreads><<<grid, kThreads, 0, stream>>>(args, rowThreads);
  return cudaGetLastError();
}

template <class T>
cudaError_t launchScanColumns(const LocalArgmaxArgs& args, cudaStream_t stream) {
  constexpr int kLanes = 16 / sizeof(T);
  // A group of rows is a memory sector, 32 bytes: more groups, more blocks.
  constexpr int kSectorRows = 32 / sizeof(T);
  const bool aligned = reinterpret_cast<uintptr_t>(args.logits) % 16 == 0 && args.columnStride % kLanes == 0;
  if (aligned && args.rows % kLanes == 0) {
    return launchScanColumns<T, kLanes, 512>(args, kSectorRows / kLanes, stream);
  }
  return launchScanColumns<T, 1, 1024>(args, kSectorRows, stream);
}

template <class T>
cudaError_t launchScan(const LocalArgmaxArgs& args, int32_t* tokens, cudaStream_t stream) {
  if (isColumnMajor(args)) return launchScanColumns<T>(args, stream);
  if (tokens != nullptr) {
    scanRowsKernel<T, 1024><<<dim3(1, gridY(args.rows)), 1024, 0, stream>>>(args, tokens);
  } else {
    // Few threads a block, so that the blocks of 64 rows run all at once.
    scanRowsKernel<T, 256><<<dim3(kArgmaxSlices, gridY(args.rows)), 256, 0, stream>>>(args, nullptr);
  }
  return cudaGetLastError();
}

cudaError_t launchScan(const LocalArgmaxArgs& args, int32_t* tokens, cudaStream_t stream) {
  switch (args.type) {
    case LogitsType::kFloat32:
      return launchScan<float>(args, tokens, stream);
    case LogitsType::kBfloat16:
      return launchScan<__nv_bfloat16>(args, tokens, stream);
    case LogitsType::kFloat16:
      return launchScan<__half>(args, tokens, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launchLocalArgmax(const LocalArgmaxArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  return launchScan(args, nullptr, stream);
}

cudaError_t launchPickFromCandidates(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens,
                                     const GatherStep& gather, cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  constexpr int kThreads = 128;
  const int64_t blocks = (rows + kThreads / 32 - 1) / (kThreads / 32);
  return launchDependent(pickKernel<kThreads>, dim3(static_cast<unsigned>(blocks)), kThreads, 0, stream,
                         reinterpret_cast<const int2*>(candidates), ranks, rows, tokens, gather);
}

cudaError_t launchArgmax(const LocalArgmaxArgs& args, int32_t* tokens, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  RETURN_IF_ERROR(launchScan(args, tokens, stream));
  if (!isColumnMajor(args)) return cudaSuccess;
  return launchPickFromCandidates(args.candidates, 1, args.rows, tokens, GatherStep{}, stream);
}

}  // namespace lm_head
