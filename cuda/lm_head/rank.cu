#include "../common/dependent_launch.cuh"
#include "../common/sort.cuh"
#include "rank.h"

namespace lm_head {
namespace {

constexpr int kThreads = 256;

__device__ inline Key targetOf(const RankOption& rank, int64_t i) {
  return makeKey(rank.scores[i], static_cast<uint32_t>(rank.ids[i]));
}

// A block a row; shared memory: `sortSize` keys, a power of two of at least 32.
__global__ void __launch_bounds__(kThreads)
    sortTargetsKernel(RankOption rank, RankTargets targets, Key* keys, int sortSize) {
  extern __shared__ Key sorted[];
  triggerDependentLaunch();
  const auto block = cg::this_thread_block();
  const int64_t first = blockIdx.x * rank.count;
  for (int i = threadIdx.x; i < sortSize; i += kThreads) {
    sorted[i] = i < rank.count ? targetOf(rank, first + i) : kWorstKey;
  }
  block.sync();
  sortBestFirst<kThreads>(block, sorted, sortSize);
  for (int i = threadIdx.x; i < rank.count; i += kThreads) {
    keys[first + i] = sorted[i];
    targets.buckets[first + i] = 0;
  }
  // The other prologue runs at the same time; whoever waits for this kernel waits for both.
  waitForPreviousKernel();
}

// A block a row: sums of buckets, then for each id that of its target.
__global__ void __launch_bounds__(kThreads) writeRanksKernel(RankOption rank, RankTargets targets) {
  __shared__ int32_t sums[kMaxRankIds];
  __shared__ int32_t sumsOfThreads[kThreads];
  waitForPreviousKernel();
  const int64_t first = blockIdx.x * rank.count;
  const int share = (targets.count + kThreads - 1) / kThreads, begin = threadIdx.x * share;
  int32_t sum = 0;
  for (int i = begin; i < min(begin + share, targets.count); ++i) sums[i] = sum += targets.buckets[first + i];
  sumsOfThreads[threadIdx.x] = sum;
  __syncthreads();
  int32_t before = 0;
  for (int thread = 0; thread < threadIdx.x; ++thread) before += sumsOfThreads[thread];
  for (int i = begin; i < min(begin + share, targets.count); ++i) sums[i] += before;
  __syncthreads();
  const Key* keys = targets.keys + first;
  for (int i = threadIdx.x; i < targets.count; i += kThreads) {
    const Key key = targetOf(rank, first + i);
    int low = 0, high = targets.count - 1;  // the first place of this key is among these
    while (low < high) {
      const int middle = (low + high) / 2;
      if (keys[middle] <= key) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    rank.ranks[first + i] = sums[low];
  }
}

}  // namespace

cudaError_t launchSortTargets(const LmHeadTopKArgs& args, const RankTargets& targets, cudaStream_t stream) {
  if (args.rank.ids == nullptr) return cudaSuccess;
  int sortSize = 32;
  while (sortSize < args.rank.count) sortSize *= 2;
  return launchDependent(sortTargetsKernel, dim3(static_cast<unsigned>(args.rows)), kThreads, sortSize * sizeof(Key),
                         stream, args.rank, targets, const_cast<Key*>(targets.keys), sortSize);
}

cudaError_t launchWriteRanks(const LmHeadTopKArgs& args, const RankTargets& targets, cudaStream_t stream) {
  if (args.rank.ids == nullptr) return cudaSuccess;
  return launchDependent(writeRanksKernel, dim3(static_cast<unsigned>(args.rows)), kThreads, 0, stream, args.rank,
                         targets);
}

}  // namespace lm_head
