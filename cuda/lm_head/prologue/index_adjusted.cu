#include "../../common/dependent_launch.cuh"
#include "index_adjusted.h"

namespace lm_head {
namespace {

constexpr int kThreads = 512;

// A block a list.
__global__ void __launch_bounds__(kThreads)
    indexAdjustedKernel(AdjustOption adjust, int64_t vocabStart, int64_t vocabSize) {
  triggerDependentLaunch();
  const AdjustIndex& index = adjust.index;
  const int64_t list = blockIdx.x;
  uint32_t* listed = index.listed + list * index.words;
  AdjustSlot* slots = index.slots + list * index.slotCount;
  for (uint32_t i = threadIdx.x; i < index.words; i += kThreads) listed[i] = 0;
  for (uint32_t i = threadIdx.x; i < index.slotCount; i += kThreads) slots[i] = {AdjustSlot::kNoId, -1, 0.0f, 0.0f};
  __syncthreads();
  const int32_t* ids = adjust.ids + list * adjust.entries;
  const auto isHere = [&](int32_t id) { return id >= vocabStart && id < vocabStart + vocabSize; };
  for (int32_t entry = threadIdx.x; entry < adjust.entries; entry += kThreads) {
    const int32_t id = ids[entry];
    if (!isHere(id)) continue;
    atomicOr(listed + index.wordOf(id), AdjustIndex::bitOf(id));
    uint32_t place = index.firstSlot(id);
    for (;; place = index.slotAfter(place)) {
      const int32_t there = atomicCAS(&slots[place].id, AdjustSlot::kNoId, id);
      if (there == AdjustSlot::kNoId || there == id) break;
    }
    atomicMax(&slots[place].entry, entry);
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < index.slotCount; i += kThreads) {
    if (slots[i].id != AdjustSlot::kNoId) slots[i] = adjust.slotOf(list, slots[i].entry);
  }
  // The other prologue runs at the same time; whoever waits for this kernel waits for both.
  waitForPreviousKernel();
}

}  // namespace

cudaError_t launchIndexAdjusted(const LmHeadTopKArgs& args, cudaStream_t stream) {
  const AdjustOption& adjust = args.options.adjust;
  if (adjust.ids == nullptr) return cudaSuccess;
  return launchDependent(indexAdjustedKernel, dim3(static_cast<unsigned>(adjust.lists)), kThreads, 0, stream, adjust,
                         args.vocabStart, args.vocabSize);
}

}  // namespace lm_head
