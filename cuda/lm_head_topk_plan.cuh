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

// Shared memory that a scorer may count on: this much is left for lists, in the best case, and for what they need
// beside.
inline size_t scorerBudget(const Device& device, int workers) {
  return device.sharedBytes - device.sharedBytes / 16 - workers / 32 * sizeof(SelectScratch) - 1024;
}

// What a plan has to know of a scorer.
struct ScorerShape {
  int rowsPerBlock;
  int tileVocab;
  int workers;
  size_t sharedBytes;
};

// The shape of one sweep.
struct Plan {
  ScanParams scan;
  ScorerShape scorer;
  int computeCapability;
  int rowGroups;
  int blocks;          // a row group
  int globalListKeys;  // of a row and block, where its list does not fit in shared memory; else 0
  bool mayLose;        // lists or pool may be too small for the worst case: those rows are scanned again
  int againCapacity;   // of the lists of such a scan

  // `fixedBlocks`: not 0 where another plan has decided.
  Plan(const LmHeadTopKArgs& args, const ScorerShape& shape, const Device& device, int fixedBlocks = 0)
      : scan{}, scorer(shape), computeCapability(device.computeCapability) {
    const int tile = shape.tileVocab;
    const int k = static_cast<int>(std::min<int64_t>(args.k, kMaxKPerSweep));
    scan.args = args;
    scan.k = k;
    scan.rowsPerBlock = shape.rowsPerBlock;
    rowGroups = static_cast<int>((args.rows + shape.rowsPerBlock - 1) / shape.rowsPerBlock);
    const int64_t tiles = (args.vocabSize + tile - 1) / tile;
    blocks = static_cast<int>(std::min(std::max<int64_t>(1, device.multiprocessors / rowGroups), tiles));
    if (fixedBlocks > 0) blocks = fixedBlocks;
    againCapacity = k + 2 * tile;

    // A list that holds k keys and a tile more never loses one.
    const size_t left = device.sharedBytes - shape.sharedBytes - listBytes(scan, shape.workers / 32, 0);
    const auto fits = [&](int64_t keys) {
      return static_cast<size_t>(shape.rowsPerBlock) * keys * sizeof(Key) <= left;
    };
    const int64_t idsPerBlock = (tiles + blocks - 1) / blocks * tile;
    const int64_t ample = std::min<int64_t>(k + 2 * tile, idsPerBlock),
                  enough = std::min<int64_t>(k + tile, idsPerBlock);
    globalListKeys = 0;
    if (fits(ample)) {
      scan.listCapacity = static_cast<int>(ample);
    } else if (fits(enough)) {
      scan.listCapacity = static_cast<int>(enough);
    } else {
      // In global memory all lists of a row together stay below 3/4 of its logits; two tiles are the least.
      const int64_t affordable = args.vocabSize * 3 / 8 / blocks;
      scan.listCapacity = static_cast<int>(std::min(enough, std::max<int64_t>(2 * tile, affordable)));
      if (scan.listCapacity > affordable && fixedBlocks == 0)
        blocks = static_cast<int>(std::max<int64_t>(1, args.vocabSize * 3 / 8 / scan.listCapacity));
      globalListKeys = scan.listCapacity;
    }
    const int64_t most = static_cast<int64_t>(blocks) * k;
    scan.pool.blocks = blocks;
    scan.pool.publishedRank = (k + blocks - 1) / blocks;
    scan.pool.capacity = static_cast<int>(std::min({most, args.vocabSize, std::max<int64_t>(16384, 4 * k)}));
    const int64_t idsOfBlock = (tiles + blocks - 1) / blocks * tile;
    mayLose = scan.listCapacity < std::min<int64_t>(k + tile, idsOfBlock) ||
              scan.pool.capacity < std::min(most, args.vocabSize);
  }

  // The plan of another scorer that adds to the same pool.
  Plan(const Plan& main, const ScorerShape& shape, const Device& device)
      : Plan(main.scan.args, shape, device, main.blocks) {
    scan.pool = main.scan.pool;
    mayLose |= main.mayLose;
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

// The sweep of `plan`, then, where keys may have been lost, the one that scans such rows again.
template <class Scorer>
cudaError_t launchScan(const Plan& plan, const typename Scorer::Params& params, Key* lists, Key* againLists,
                       cudaStream_t stream) {
  const auto kernel = scanKernel<Scorer>;
  const auto launch = [&](const ScanParams& scan, int blocks) {
    const size_t bytes =
        plan.scorer.sharedBytes + listBytes(scan, Scorer::kWorkers / 32, scan.lists == nullptr ? scan.listCapacity : 0);
    RETURN_IF_ERROR(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)));
    return launchDependent(plan.computeCapability, kernel, dim3(blocks, plan.rowGroups), Scorer::kThreads, bytes,
                           stream, scan, params);
  };
  ScanParams scan = plan.scan;
  scan.lists = plan.globalListKeys > 0 ? lists : nullptr;
  RETURN_IF_ERROR(launch(scan, plan.blocks));
  if (!plan.mayLose) return cudaSuccess;
  scan.again = true;
  scan.logSums = nullptr;
  scan.lists = againLists;
  scan.listCapacity = plan.againCapacity;
  return launch(scan, 1);
}

}  // namespace lm_head
