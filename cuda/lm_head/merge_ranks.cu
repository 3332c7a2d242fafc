#include <algorithm>
#include <cmath>

#include "../../kernels/core/order.h"
#include "../common/cuda_check.h"
#include "../common/dependent_launch.cuh"
#include "../common/gather_step.cuh"
#include "merge_ranks.h"

namespace lm_head {
namespace {

constexpr int kThreads = 256;

// One list of `size` keys, best first.
struct List {
  const float* values;
  const int32_t* indices;
  int64_t size;

  __device__ Key key(int64_t i) const {
    return indices[i] < 0 ? kWorstKey : makeKey(values[i], static_cast<uint32_t>(indices[i]));
  }

  // How many keys are better than `than`; `orEqual`: or the same.
  __device__ int64_t countBetter(Key than, bool orEqual) const {
    int64_t low = 0, high = size;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const Key found = key(middle);
      if (found > than || (orEqual && found == than)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

struct Blocks {
  const char* memory;
  int64_t stride;  // bytes
  int64_t rows;
  int64_t k;

  __device__ List list(int64_t rank, int64_t row) const {
    const float* values = reinterpret_cast<const float*>(memory + rank * stride);
    return {values + row * k, reinterpret_cast<const int32_t*>(values + rows * k) + row * k, k};
  }

  __device__ LogSum logSum(int64_t rank, int64_t row) const {
    return LogSum::load(reinterpret_cast<const int32_t*>(memory + rank * stride) + 2 * rows * k + row * LogSum::kWords);
  }
};

__device__ float logSumExpOfRanks(const Blocks& blocks, int64_t ranks, int64_t row) {
  LogSum sum = blocks.logSum(0, row);
  for (int64_t rank = 1; rank < ranks; ++rank) sum.add(blocks.logSum(rank, row));
  return sum.value();
}

// A thread an element: its place among all is its place in its own list and the better ones of the other lists. Equal
// keys, which only padding has, go by rank.
__global__ void __launch_bounds__(kThreads) mergeTopKKernel(MergeTopKArgs args, int64_t blockBytes) {
  waitForPreviousKernel();
  const bool gathered = isGathered(args.gather);
  const Blocks blocks{static_cast<const char*>(args.blocks), blockBytes, args.rows, args.k};
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t i = first; i < args.rows * args.ranks * args.k; i += step) {
    const int64_t row = i / (args.ranks * args.k), rank = i / args.k % args.ranks;
    const List own = blocks.list(rank, row);
    int64_t place = i % args.k;
    const Key key = gathered ? own.key(place) : kWorstKey;
    if (gathered) {
      for (int64_t other = 0; other < args.ranks && place < args.k; ++other) {
        if (other != rank) place += blocks.list(other, row).countBetter(key, other < rank);
      }
    } else if (rank != 0) {
      continue;
    }
    if (place >= args.k) continue;
    const int64_t out = row * args.k + place;
    args.indices[out] = key == kWorstKey ? -1 : static_cast<int32_t>(keyId(key));
    args.values[out] = !gathered ? NAN : key == kWorstKey ? -INFINITY : own.values[i % args.k];
  }
  if (args.logSumExp == nullptr) return;
  for (int64_t row = first; row < args.rows; row += step) {
    args.logSumExp[row] = gathered ? logSumExpOfRanks(blocks, args.ranks, row) : NAN;
  }
}

__global__ void __launch_bounds__(kThreads) padTopKKernel(const float* values, const int32_t* indices, int64_t listSize,
                                                          int64_t rows, int64_t k, TopKBlock block) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  for (int64_t i = first; i < rows * k; i += step) {
    const int64_t row = i / k, place = i % k;
    const bool real = place < listSize;
    block.values[i] = real ? values[row * listSize + place] : -INFINITY;
    block.indices[i] = real ? indices[row * listSize + place] : -1;
  }
  if (listSize > 0 || block.logSumState == nullptr) return;
  for (int64_t row = first; row < rows; row += step) LogSum::empty().store(block.logSumState + row * LogSum::kWords);
}

unsigned gridFor(int64_t elements) {
  return static_cast<unsigned>(std::min<int64_t>((elements + kThreads - 1) / kThreads, 1024));
}

}  // namespace

cudaError_t launchMergeTopK(const MergeTopKArgs& args, cudaStream_t stream) {
  if (args.rows == 0 || args.k == 0) return cudaSuccess;
  return launchDependent(mergeTopKKernel, dim3(gridFor(args.rows * args.ranks * args.k)), kThreads, 0, stream, args,
                         TopKBlock::bytes(args.rows, args.k, args.logSumExp != nullptr));
}

cudaError_t launchPadTopK(const float* values, const int32_t* indices, int64_t listSize, int64_t rows, int64_t k,
                          const TopKBlock& block, cudaStream_t stream) {
  if (rows == 0 || k == 0) return cudaSuccess;
  padTopKKernel<<<gridFor(rows * k), kThreads, 0, stream>>>(values, indices, listSize, rows, k, block);
  return cudaGetLastError();
}

}  // namespace lm_head
