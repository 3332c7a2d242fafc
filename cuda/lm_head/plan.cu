#include <algorithm>
#include <cmath>

#include "../common/cuda_check.h"
#include "plan.h"

namespace lm_head {
namespace {

cudaError_t query(int index, GpuInfo* gpu) {
  GpuInfo found;
  int shared = 0, major = 0, minor = 0;
  RETURN_IF_ERROR(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
  RETURN_IF_ERROR(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
  RETURN_IF_ERROR(cudaDeviceGetAttribute(&found.multiprocessors, cudaDevAttrMultiProcessorCount, index));
  RETURN_IF_ERROR(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
  found.index = index;
  found.computeCapability = 10 * major + minor;
  found.sharedBytes = shared;
  *gpu = found;
  return cudaSuccess;
}

// Where lists are in global memory: scratch memory that up to 64 rows take if it can be helped, of many results for the
// lists alone; and keys of a row and block, which a warp's registers then hold. With more room, fewer orders of scores
// fill lists, and those that do fill them less often.
constexpr int64_t kScratchBytesOf64Rows = 31 << 19, kGlobalListKeys = 256, kManyResults = 512;

// Beside what it keeps, a list has room at least for what a warp appends at once, 16 keys, when half of it is filled
// again.
constexpr int64_t kLeastRoom = 40;

// Keys of a row that a block never cuts off. Blocks get ids in turn, so a block's share of the k best is near
// k / blocks, or where neighbours win together all of those that go to one block; with so much room nothing is lost.
int keysToKeep(int64_t k, int64_t blocks, const Tiling& tiling) {
  const double share = static_cast<double>(k) / blocks;
  const auto room = static_cast<int64_t>(std::max(tiling.neighbours + 8.0, share + 8 * std::sqrt(share) + 16));
  return static_cast<int>(std::min(k, room));
}

}  // namespace

cudaError_t GpuInfo::current(GpuInfo* gpu) {
  static thread_local GpuInfo known;
  int index = 0;
  RETURN_IF_ERROR(cudaGetDevice(&index));
  if (known.index != index) RETURN_IF_ERROR(query(index, &known));
  *gpu = known;
  return cudaSuccess;
}

size_t MainloopShape::reductionBytes(int listKeys, bool logSumExp) const {
  return topKBytes(rowsPerBlock, listKeys) + (logSumExp ? logSumBytes(rowsPerBlock) : 0);
}

cudaError_t Plan::make(const LmHeadTopKArgs& args, const Tuning& tuning, Plan* made) {
  Plan plan{};
  plan.args = args;
  RETURN_IF_ERROR(GpuInfo::current(&plan.gpu));
  plan.variant = chooseVariant(args, plan.gpu, tuning.path);
  if (plan.variant == nullptr) return cudaErrorNotSupported;
  plan.shape = plan.variant->shape(args, plan.gpu);
  const MainloopShape& shape = plan.shape;
  plan.k = static_cast<int>(std::min<int64_t>(args.k, kMaxKPerSweep));
  plan.rowGroups = static_cast<int>((args.rows + shape.rowsPerBlock - 1) / shape.rowsPerBlock);
  const int tile = shape.dealtTiles ? shape.smallTileVocab : shape.tileVocab;
  const int64_t tiles = (args.vocabSize + tile - 1) / tile;
  const int64_t most = std::min(plan.gpu.multiprocessors, kMaxPoolBlocks) / plan.rowGroups;
  const int64_t blocks = std::min(std::max<int64_t>(1, most), tiles);
  plan.blocks = static_cast<int>(blocks);
  plan.tiling = shape.dealtTiles
                    ? Tiling::dealt(args.vocabSize, blocks, shape.tileVocab / kGroupIds)
                    : Tiling::whole(args.vocabSize, blocks, shape.tileVocab, shape.smallTileVocab, shape.dynamicTiles);
  const bool logSums = args.wantsLogSumExp();
  plan.logSumExp = logSums;
  plan.publishedRank = static_cast<int>((plan.k + blocks - 1) / blocks);

  const int64_t ids = plan.tiling.mostIdsOfBlock;
  int64_t keep = tuning.keep > 0 ? std::min<int64_t>(tuning.keep, plan.k) : keysToKeep(plan.k, blocks, plan.tiling);
  keep = std::max<int64_t>(keep, plan.publishedRank);
  // What a second sweep may find: of k / keep blocks, all ids.
  const auto rescanKeys = [&] { return plan.k + plan.k / keep * (ids - keep); };
  // And all that blocks hand over.
  const auto poolKeys = [&](int64_t kept) {
    const int64_t handedOver = blocks * std::min<int64_t>(withSlack(static_cast<int>(kept)), ids);
    const bool mayCut = kept < std::min<int64_t>(plan.k, ids);
    return std::min(args.vocabSize, mayCut ? std::max(handedOver, rescanKeys()) : handedOver);
  };
  // Few blocks need less memory without one.
  if (tuning.keep == 0 && blocks * plan.k <= rescanKeys()) keep = std::min<int64_t>(plan.k, ids);
  const int64_t fits =
      static_cast<int64_t>(plan.gpu.sharedBytes - shape.sharedBytes - shape.reductionBytes(0, logSums)) /
      static_cast<int64_t>(shape.rowsPerBlock * sizeof(Key));
  const int64_t least = std::min(ids, keep + kLeastRoom);
  plan.sharedLists = fits >= least;
  if (plan.sharedLists) {
    plan.listCapacity = static_cast<int>(std::min(fits, ids));
  } else {
    const auto keyBytes = static_cast<int64_t>(sizeof(Key));
    const int64_t scratch = kScratchBytesOf64Rows * std::max<int64_t>(1, args.rows / 64);
    const int64_t others = plan.k > kManyResults
                               ? 0
                               : static_cast<int64_t>(plan.variant->hiddenBytes(plan)) +
                                     args.rows * keyBytes * (poolKeys(std::min(keep, ids)) + kMaxPoolBlocks);
    const int64_t affordable = (scratch - others) / (args.rows * blocks * keyBytes);
    // What is kept and a tile.
    const int64_t enough = withSlack(static_cast<int>(keep)) + shape.tileVocab;
    plan.listCapacity = static_cast<int>(std::min({ids, std::max(kGlobalListKeys, enough), affordable}));
    plan.listCapacity = static_cast<int>(std::max<int64_t>(plan.listCapacity, least));
  }
  if (tuning.listCapacity > 0)
    plan.listCapacity = static_cast<int>(
        std::min<int64_t>(plan.listCapacity, std::max<int64_t>(tuning.listCapacity, keep + kLeastRoom)));
  plan.listsMayFill = plan.listCapacity < ids;
  // A list that holds all ids is handed over as it is, or as much of it as can be wanted.
  if (!plan.listsMayFill && tuning.keep == 0) keep = std::min<int64_t>(plan.k, ids);
  plan.mayCut = keep < std::min<int64_t>(plan.k, ids);
  plan.keep = static_cast<int>(keep);
  plan.poolCapacity = static_cast<int>(poolKeys(keep));
  *made = plan;
  return cudaSuccess;
}

}  // namespace lm_head
