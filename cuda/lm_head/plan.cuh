// How a sweep is cut into blocks, and its launch: host code that every format shares.
#pragma once

#include <algorithm>
#include <climits>

#include "../common/cuda_check.h"
#include "lm_head.h"
#include "sweep.cuh"

namespace lm_head {

struct Device {
  int index = -1;
  int computeCapability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  size_t sharedBytes = 0;  // that a block can have

  // The current device. Its attributes never change, so a thread asks for them once.
  static cudaError_t current(Device* device) {
    static thread_local Device known;
    int index = 0;
    RETURN_IF_ERROR(cudaGetDevice(&index));
    if (known.index != index) RETURN_IF_ERROR(query(index, &known));
    *device = known;
    return cudaSuccess;
  }

 private:
  static cudaError_t query(int index, Device* device) {
    Device found;
    int shared = 0, major = 0, minor = 0;
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&found.multiprocessors, cudaDevAttrMultiProcessorCount, index));
    RETURN_IF_ERROR(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
    found.index = index;
    found.computeCapability = 10 * major + minor;
    found.sharedBytes = shared - 1024;  // static shared memory and what the system keeps
    *device = found;
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
  int smallTileVocab;
  int workers;
  size_t sharedBytes;
  bool sharesTiles;

  template <class Scorer>
  static ScorerShape of(int rowsPerBlock, size_t sharedBytes) {
    return {rowsPerBlock,     Scorer::kTileVocab, Scorer::kSmallTileVocab,
            Scorer::kWorkers, sharedBytes,        Scorer::kSharesTiles};
  }

  // How blocks divide the vocabulary.
  Tiling tiling(int64_t vocabSize, int64_t blocks, bool again = false) const {
    return {vocabSize, blocks, tileVocab, smallTileVocab, sharesTiles && !again};
  }
  int logSumParts() const { return sharesTiles ? LogSums::kMostParts : 1; }
};

// 1 MiB.
constexpr int64_t kPoolKeysOfFewRows = 131072;

// The shape of one sweep.
struct Plan {
  Device device;
  ScanParams scan;
  ScorerShape scorer;
  int rowGroups;
  int blocks;          // a row group
  int globalListKeys;  // of a row and block, where its list does not fit in shared memory; else 0
  bool mayLose;        // lists or pool may be too small for the worst case: those rows are scanned again
  int againCapacity;   // of the lists of such a scan

  Plan(const LmHeadTopKArgs& args, const Tuning& tuning, const ScorerShape& shape, const Device& device)
      : device(device), scan{}, scorer(shape) {
    const int tile = shape.tileVocab;
    const int k = static_cast<int>(std::min<int64_t>(args.k, kMaxKPerSweep));
    scan.args = args;
    scan.k = k;
    scan.rowsPerBlock = shape.rowsPerBlock;
    scan.logSumParts = shape.logSumParts();
    rowGroups = static_cast<int>((args.rows + shape.rowsPerBlock - 1) / shape.rowsPerBlock);
    const int64_t tiles = (args.vocabSize + tile - 1) / tile;
    const int64_t most = std::min(device.multiprocessors, kMaxPoolBlocks) / rowGroups;
    blocks = static_cast<int>(std::min(std::max<int64_t>(1, most), tiles));
    againCapacity = k + 2 * tile;

    // A list that holds k keys and a tile more never loses one.
    const size_t left = device.sharedBytes - shape.sharedBytes - listBytes(scan, shape.workers / 32, 0);
    const int64_t fits = static_cast<int64_t>(left / (shape.rowsPerBlock * sizeof(Key)));
    const auto idsOfBlocks = [&](int64_t blocks) {
      return ((tiles + blocks - 1) / blocks + (shape.sharesTiles ? 1 : 0)) * tile;
    };
    const int64_t idsPerBlock = idsOfBlocks(blocks);
    globalListKeys = 0;
    scan.listCapacity = static_cast<int>(std::min(fits, idsPerBlock));
    if (scan.listCapacity < std::min<int64_t>(k + tile, idsPerBlock)) {
      // In global memory all lists of a row together stay below 3/4 of its logits; two tiles are the least. With room
      // for two tiles beside k, no list is cut before blocks have told each other their bests.
      const int64_t affordable = args.vocabSize * 3 / 8 / blocks;
      scan.listCapacity =
          static_cast<int>(std::min<int64_t>({k + 2 * tile, idsPerBlock, std::max<int64_t>(2 * tile, affordable)}));
      if (scan.listCapacity > affordable)
        blocks = static_cast<int>(std::max<int64_t>(1, args.vocabSize * 3 / 8 / scan.listCapacity));
      globalListKeys = scan.listCapacity;
    }
    const int64_t idsOfBlock = idsOfBlocks(blocks);
    const bool neverFull = scan.listCapacity >= idsOfBlock;
    scan.tilesPerCheck = neverFull ? INT_MAX : std::max(1, (scan.listCapacity - k) / tile);
    scan.roomPerCheck = neverFull ? 0 : scan.tilesPerCheck * tile;
    scan.tiling = shape.tiling(args.vocabSize, blocks);
    scan.logSumsOfRow = blocks + static_cast<int>(scan.tiling.sharedTiles());
    const int64_t handedOver = static_cast<int64_t>(blocks) * k;
    scan.pool.blocks = blocks;
    scan.pool.publishedRank = (k + blocks - 1) / blocks;
    // Small heads give blocks no time to learn a bound, so that they hand over most of their ids, and a row that is
    // scanned again takes milliseconds: few rows have room for it.
    const int64_t affordablePool = std::max<int64_t>({16384, 4 * k, kPoolKeysOfFewRows / args.rows});
    scan.pool.capacity = tuning.poolCapacity > 0
                             ? tuning.poolCapacity
                             : static_cast<int>(std::min({handedOver, args.vocabSize, affordablePool}));
    mayLose = scan.listCapacity < std::min<int64_t>(k + tile, idsOfBlock) ||
              scan.pool.capacity < std::min(handedOver, args.vocabSize);
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
template <class Scorer, class RestScorer = void>
cudaError_t launchScan(const Plan& plan, const typename Scorer::Params& params, Key* lists, Key* againLists,
                       cudaStream_t stream) {
  const auto kernel = scanKernel<Scorer, RestScorer>;
  // A thread does this once for each kernel and device.
  static thread_local int allowedOn = -1;
  if (allowedOn != plan.device.index) {
    RETURN_IF_ERROR(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(plan.device.sharedBytes)));
    allowedOn = plan.device.index;
  }
  const auto launch = [&](ScanParams scan, int blocks) {
    const size_t bytes =
        plan.scorer.sharedBytes + listBytes(scan, Scorer::kWorkers / 32, scan.lists == nullptr ? scan.listCapacity : 0);
    return launchDependent(plan.device.computeCapability, kernel, dim3(blocks, plan.rowGroups), Scorer::kThreads, bytes,
                           stream, scan, params);
  };
  ScanParams scan = plan.scan;
  scan.lists = plan.globalListKeys > 0 ? lists : nullptr;
  RETURN_IF_ERROR(launch(scan, plan.blocks));
  if (!plan.mayLose) return cudaSuccess;
  scan.again = true;
  scan.tiling = plan.scorer.tiling(scan.args.vocabSize, 1, true);
  scan.logSums = nullptr;
  scan.lists = againLists;
  scan.listCapacity = plan.againCapacity;
  scan.tilesPerCheck = 1;
  scan.roomPerCheck = Scorer::kTileVocab;
  return launch(scan, 1);
}

}  // namespace lm_head
