#include <algorithm>

#include "../common/quantize.cuh"
#include "quantize_activations.h"

namespace lm_head {
namespace {

// A block a row.
__global__ void quantizeActivationsKernel(QuantizeActivationsArgs args) {
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const float* hidden = args.hidden + row * args.hiddenSize;
    const float scale = quantizationScale(hidden, args.hiddenSize);
    if (threadIdx.x == 0) args.scale[row] = scale;
    for (int64_t i = threadIdx.x; i < args.hiddenSize; i += blockDim.x) {
      args.q[row * args.hiddenSize + i] = quantize(hidden[i], scale);
    }
  }
}

}  // namespace

cudaError_t launchQuantizeActivations(const QuantizeActivationsArgs& args, cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  quantizeActivationsKernel<<<static_cast<unsigned>(std::min<int64_t>(args.rows, 1 << 20)), 256, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace lm_head
