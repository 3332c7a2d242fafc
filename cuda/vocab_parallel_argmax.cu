#include <algorithm>

#include "common/cuda_check.h"
#include "vocab_parallel_argmax.cuh"
#include "vocab_parallel_argmax.h"

namespace lm_head {
namespace {

template <class T>
cudaError_t launchLocalArgmax(const LocalArgmaxArgs& args, cudaStream_t stream) {
  constexpr int kThreads = 512;
  const dim3 grid(kArgmaxSlices, static_cast<unsigned>(std::min<int64_t>(args.rows, 65535)));
  localArgmaxKernel<T, kThreads><<<grid, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launchLocalArgmax(const LocalArgmaxArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  switch (args.type) {
    case LogitsType::kFloat32:
      return launchLocalArgmax<float>(args, stream);
    case LogitsType::kBfloat16:
      return launchLocalArgmax<__nv_bfloat16>(args, stream);
    case LogitsType::kFloat16:
      return launchLocalArgmax<__half>(args, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launchPickFromCandidates(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens,
                                     cudaStream_t stream) {
  if (rows == 0) return cudaSuccess;
  constexpr int kThreads = 128;
  const int64_t blocks = (rows + kThreads / 32 - 1) / (kThreads / 32);
  pickKernel<kThreads><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(candidates, ranks, rows, tokens);
  return cudaGetLastError();
}

}  // namespace lm_head
