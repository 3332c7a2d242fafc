#include <algorithm>

#include "binarize_head.h"

namespace lm_head {
namespace {

// A warp a group, 32 columns at a time: the ballot is the word of bits, and one lane sums the magnitudes in ascending
// order, so that every backend gets the same scale.
__global__ void binarizeHeadKernel(BinarizeHeadArgs args) {
  __shared__ float magnitudes[8][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t groups = args.rows * (args.columns / args.groupSize), words = args.groupSize / 32;
  for (int64_t group = static_cast<int64_t>(blockIdx.x) * 8 + warp; group < groups;
       group += static_cast<int64_t>(gridDim.x) * 8) {
    double sum = 0.0;
    for (int64_t word = 0; word < words; ++word) {
      const float weight = args.weight[group * args.groupSize + word * 32 + lane];
      const uint32_t bits = __ballot_sync(0xffffffffu, !(weight < 0.0f));
      magnitudes[warp][lane] = fabsf(weight);
      __syncwarp();
      if (lane == 0) {
        args.bits[group * words + word] = bits;
        for (int i = 0; i < 32; ++i) sum += magnitudes[warp][i];
      }
      __syncwarp();
    }
    if (lane == 0) args.scales[group] = static_cast<float>(sum / static_cast<double>(args.groupSize));
  }
}

}  // namespace

cudaError_t launchBinarizeHead(const BinarizeHeadArgs& args, cudaStream_t stream) {
  const int64_t groups = args.rows * (args.columns / args.groupSize);
  if (groups == 0) return cudaSuccess;
  binarizeHeadKernel<<<static_cast<unsigned>(std::min<int64_t>((groups + 7) / 8, 1 << 20)), 256, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace lm_head
