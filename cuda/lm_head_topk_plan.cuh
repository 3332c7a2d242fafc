// How a sweep is cut into blocks, and its launch: host code that every format shares.
#pragma once

#include <algorithm>

#include "common/cuda_check.h"
#include "lm_head_topk.h"
#include "lm_head_topk_scan.cuh"

namespace lm_head {

struct Device {
  int computeCapability;  // 90 for 9.0
  int multiprocessors;
  size_t sharedBytes;  // that a block can have

  static cudaError_t current(Device* device) {
    int index = 0, shared = 0, major = 0, minor = 0;
    RETURN_IF_ERROR(cudaGetDevice(&index));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    device->computeCapability = 10 * major + minor;
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&device->multiprocessors, cudaDevAttrMultiProcessorCount, index));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
    device->sharedBytes = shared - 1024;  // static shared memory and what the system keeps
    return cudaSuccess;
  }
};

// Lists in shared memory are fastest, but must leave room for copies in flight.
inline size_t mostSharedListBytes(const Device& device) { return device.sharedBytes / 6; }

// What a scan block's scorer can have of the shared memory.
inline size_t scorerBudget(const Device& device, int threads) {
  return device.sharedBytes - mostSharedListBytes(device) - threads / 32 * sizeof(SelectScratch) - 1024;
}

// Room for k keys and for so many more that lists are seldom cut back; a tile more than k is the least.
inline int listCapacity(int k, int tileVocab) { return k + std::max(2 * tileVocab, k / 2); }

// The shape of one sweep.
struct Plan {
  ScanParams scan;
  int rowGroups;
  int blocks;  // a row group; each keeps one list a row

  Plan(const LmHeadTopKArgs& args, int rowsPerBlock, int tileVocab, const Device& device) : scan{} {
    scan.args = args;
    scan.k = static_cast<int>(std::min<int64_t>(args.k, kMaxKPerSweep));
    scan.rowsPerBlock = rowsPerBlock;
    scan.listCapacity = listCapacity(scan.k, tileVocab);
    scan.listsInShared = static_cast<size_t>(rowsPerBlock) * scan.listCapacity * sizeof(Key) <= mostSharedListBytes(device);
    scan.partialStride = scan.listsInShared ? scan.k : scan.listCapacity;
    rowGroups = static_cast<int>((args.rows + rowsPerBlock - 1) / rowsPerBlock);
    const int64_t tiles = (args.vocabSize + tileVocab - 1) / tileVocab;
    // All lists of a row together stay below half the size of its logits.
    const int64_t mostLists = std::max<int64_t>(1, args.vocabSize / (4 * scan.partialStride));
    blocks = static_cast<int>(std::min({std::max<int64_t>(1, device.multiprocessors / rowGroups), tiles, mostLists}));
    const int64_t idsPerBlock = (tiles + blocks - 1) / blocks * tileVocab;
    scan.listCapacity = static_cast<int>(std::min<int64_t>(scan.listCapacity, idsPerBlock));
  }
};

// The fewest rows of 1, 2, 4, ... `most` that serve all rows in one block, or as many as fit in its shared memory.
template <class BytesOf>
int chooseRows(int64_t rows, int least, int most, size_t available, BytesOf bytesOf) {
  int chosen = least;
  while (chosen < most && chosen < rows) chosen *= 2;
  while (chosen > least && bytesOf(chosen) > available) chosen /= 2;
  return chosen;
}

template <class Scorer>
cudaError_t launchScan(const Plan& plan, const typename Scorer::Params& params, size_t scorerBytes, cudaStream_t stream) {
  const size_t bytes = scorerBytes + listBytes(plan.scan, Scorer::kWorkers / 32);
  const auto kernel = scanKernel<Scorer>;
  RETURN_IF_ERROR(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
  kernel<<<dim3(plan.blocks, plan.rowGroups), Scorer::kThreads, bytes, stream>>>(plan.scan, params);
  return cudaGetLastError();
}

}  // namespace lm_head
