#include <algorithm>

#include "lm_head_topk.h"
#include "lm_head_topk_binary.h"
#include "lm_head_topk_half.cuh"
#include "lm_head_topk_hopper.h"
#include "lm_head_topk_merge.cuh"
#include "lm_head_topk_plain.cuh"
#include "lm_head_topk_plan.cuh"

namespace lm_head {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

// Hands out pieces of the scratch memory; with a null base it only counts.
class Scratch {
 public:
  explicit Scratch(void* base) : base_(static_cast<unsigned char*>(base)) {}
  template <class T>
  T* take(size_t count) {
    T* piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + used_);
    used_ += aligned(count * sizeof(T));
    return piece;
  }
  size_t used() const { return used_; }

 private:
  unsigned char* base_;
  size_t used_ = 0;
};

struct Buffers {
  void* parts;  // 16-bit heads
  SplitRow* splitRows;
  BinaryHidden binary;
  Key* published;
  Key* poolKeys;
  int* poolCounts;
  Key* bounds;
  LogSum* logSums;
  Key* lists;
  Key* againLists;
};

int64_t partsStride(const LmHeadTopKArgs& args) {
  return (args.hiddenSize + kPartsMultiple - 1) / kPartsMultiple * kPartsMultiple;
}

bool isHalf(HeadFormat format) { return format == HeadFormat::kBfloat16 || format == HeadFormat::kFloat16; }

// `split`: hidden is cut into parts. `plans`: every plan whose sweeps use these buffers; they share one pool.
Buffers takeBuffers(Scratch& scratch, const LmHeadTopKArgs& args, bool split,
                    std::initializer_list<const Plan*> plans) {
  const size_t rows = args.rows;
  size_t listKeys = 0, againKeys = 0;
  for (const Plan* plan : plans) {
    listKeys = std::max(listKeys, rows * plan->blocks * plan->globalListKeys);
    if (plan->mayLose) againKeys = std::max(againKeys, rows * plan->againCapacity);
  }
  const Plan& main = **plans.begin();
  Buffers buffers{};
  if (split) {
    const size_t parts = 2 * main.rowGroups * main.scorer.rowsPerBlock * partsStride(args);
    buffers.parts =
        isHalf(args.format) ? static_cast<void*>(scratch.take<uint16_t>(parts)) : scratch.take<float>(parts);
    buffers.splitRows = scratch.take<SplitRow>(rows);
  } else if (args.format == HeadFormat::kBinary) {
    const BinaryHiddenSizes sizes = binaryHiddenSizes(main);
    buffers.binary = {scratch.take<unsigned char>(sizes.operandBytes), scratch.take<int>(sizes.bases),
                      scratch.take<float>(sizes.rowScales)};
  }
  buffers.published = scratch.take<Key>(rows * main.blocks);
  buffers.poolKeys = scratch.take<Key>(rows * main.scan.pool.capacity);
  buffers.poolCounts = scratch.take<int>(rows);
  buffers.bounds = scratch.take<Key>(rows);
  if (args.logSumExp != nullptr) buffers.logSums = scratch.take<LogSum>(rows * main.blocks);
  buffers.lists = scratch.take<Key>(listKeys);
  buffers.againLists = scratch.take<Key>(againKeys);
  return buffers;
}

cudaError_t launchMerge(const Plan& plan, int64_t kBefore, Key* bounds, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.scan.args;
  MergeParams params{};
  params.pool = plan.scan.pool;
  params.k = plan.scan.k;
  params.kBefore = kBefore;
  params.kTotal = args.k;
  params.vocabStart = args.vocabStart;
  params.values = args.values;
  params.indices = args.indices;
  params.bounds = bounds;
  params.logSums = plan.scan.logSums;
  params.logSumExp = args.logSumExp;
  int sortSize = 1;
  while (sortSize < params.k) sortSize *= 2;
  constexpr int kThreads = 1024;
  mergeKernel<kThreads>
      <<<static_cast<unsigned>(args.rows), kThreads, sortSize * sizeof(Key), stream>>>(params, sortSize);
  return cudaGetLastError();
}

// --- float32, and rows of 16-bit heads that need plain arithmetic ---

using PlainOneRow = PlainScorer<LoadFloatAligned, 1>;

ScorerShape plainShape(const LmHeadTopKArgs& args, int most, const Device& device) {
  const auto bytes = [&](int rows) { return rows * PlainOneRow::sharedBytes(args.hiddenSize); };
  const int rows = chooseRows(args.rows, 1, most, scorerBudget(device, PlainOneRow::kWorkers), bytes);
  return {rows, PlainOneRow::kTileVocab, PlainOneRow::kWorkers, bytes(rows)};
}

template <class Load>
cudaError_t launchPlain(const Plan& plan, const PlainScorerParams& params, const Buffers& buffers,
                        cudaStream_t stream) {
  switch (plan.scorer.rowsPerBlock) {
    case 1:
      return launchScan<PlainScorer<Load, 1>>(plan, params, buffers.lists, buffers.againLists, stream);
    case 2:
      return launchScan<PlainScorer<Load, 2>>(plan, params, buffers.lists, buffers.againLists, stream);
    case 4:
      return launchScan<PlainScorer<Load, 4>>(plan, params, buffers.lists, buffers.againLists, stream);
    default:
      return launchScan<PlainScorer<Load, 8>>(plan, params, buffers.lists, buffers.againLists, stream);
  }
}

// Whether four neighbouring weights can be loaded at once, from any id and column that is a multiple of 4.
bool isAligned(const LmHeadTopKArgs& args) {
  return args.weightColumnStride == 1 && args.weightRowStride % 4 == 0 && args.hiddenSize % 4 == 0 &&
         reinterpret_cast<uintptr_t>(args.weight) % 16 == 0;
}

cudaError_t launchFloat(const Plan& plan, const Plan& plainPlan, bool hopper, const Buffers& buffers,
                        cudaStream_t stream) {
  if (hopper) {
    const SplitParams params{buffers.parts, partsStride(plan.scan.args), buffers.splitRows};
    RETURN_IF_ERROR(launchHopperFloat(plan, params, buffers.lists, buffers.againLists, stream));
    return launchPlain<LoadFloatAligned>(plainPlan, {buffers.splitRows}, buffers, stream);
  }
  if (isAligned(plan.scan.args)) return launchPlain<LoadFloatAligned>(plan, {nullptr}, buffers, stream);
  return launchPlain<LoadFloatStrided>(plan, {nullptr}, buffers, stream);
}

// --- 16-bit ---

constexpr int kFewStages = 2, kManyStages = 4;

template <int kStages>
size_t portableBytes(int rows) {
  switch (rows) {
    case 4:
      return HalfScorer<__half, 1, kStages>::kSharedBytes;
    case 8:
      return HalfScorer<__half, 2, kStages>::kSharedBytes;
    case 16:
      return HalfScorer<__half, 4, kStages>::kSharedBytes;
    default:
      return HalfScorer<__half, 8, kStages>::kSharedBytes;
  }
}

ScorerShape portableShape(const LmHeadTopKArgs& args, const Device& device) {
  using Smallest = HalfScorer<__half, 1, kFewStages>;
  const size_t budget = scorerBudget(device, Smallest::kWorkers);
  const int rows = chooseRows(args.rows, 4, 32, budget, portableBytes<kFewStages>);
  const size_t deep = portableBytes<kManyStages>(rows);
  return {rows, Smallest::kTileVocab, Smallest::kWorkers, deep <= budget ? deep : portableBytes<kFewStages>(rows)};
}

template <class Half, int kColumnTiles>
cudaError_t launchPortable(const Plan& plan, const SplitParams& params, const Buffers& buffers, cudaStream_t stream) {
  using Deep = HalfScorer<Half, kColumnTiles, kManyStages>;
  using Shallow = HalfScorer<Half, kColumnTiles, kFewStages>;
  if (plan.scorer.sharedBytes == Deep::kSharedBytes)
    return launchScan<Deep>(plan, params, buffers.lists, buffers.againLists, stream);
  return launchScan<Shallow>(plan, params, buffers.lists, buffers.againLists, stream);
}

template <class Half>
cudaError_t launchPortable(const Plan& plan, const SplitParams& params, const Buffers& buffers, cudaStream_t stream) {
  switch (plan.scorer.rowsPerBlock) {
    case 4:
      return launchPortable<Half, 1>(plan, params, buffers, stream);
    case 8:
      return launchPortable<Half, 2>(plan, params, buffers, stream);
    case 16:
      return launchPortable<Half, 4>(plan, params, buffers, stream);
    default:
      return launchPortable<Half, 8>(plan, params, buffers, stream);
  }
}

template <class Half>
cudaError_t launchSplit(const Plan& plan, const Buffers& buffers, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.scan.args;
  const unsigned rows = plan.rowGroups * plan.scorer.rowsPerBlock;
  splitHiddenKernel<Half><<<rows, 256, 0, stream>>>(args.hidden, args.rows, args.hiddenSize, partsStride(args),
                                                    static_cast<Half*>(buffers.parts), buffers.splitRows,
                                                    plan.scan.pool);
  return cudaGetLastError();
}

template <class Half>
cudaError_t launchHalf(const Plan& plan, const Plan& plainPlan, bool hopper, const Buffers& buffers,
                       cudaStream_t stream) {
  const SplitParams params{buffers.parts, partsStride(plan.scan.args), buffers.splitRows};
  if (hopper) {
    RETURN_IF_ERROR(launchHopper(plan, params, buffers.lists, buffers.againLists, stream));
  } else {
    RETURN_IF_ERROR(launchPortable<Half>(plan, params, buffers, stream));
  }
  // Rows that were not split; its blocks end at once when there is none.
  return launchPlain<LoadHalf<Half>>(plainPlan, {buffers.splitRows}, buffers, stream);
}

// --- all formats ---

struct Plans {
  bool hopper;
  bool split;  // hidden is cut into parts
  bool bulk;   // binary: with bulk copies
  Plan main;
  Plan plain;  // where hidden is split: the rows that need plain arithmetic

  Plans(const LmHeadTopKArgs& args, Path path, const Device& device)
      : hopper(path == Path::kBest && device.computeCapability == 90 &&
               (isHalf(args.format) || (args.format == HeadFormat::kFloat32 && isAligned(args)))),
        split(hopper || isHalf(args.format)),
        bulk(path == Path::kBest && device.computeCapability >= 90),
        main(args, shape(args, hopper, bulk, device), device),
        plain(main, plainShape(args, 4, device), device) {}

 private:
  static ScorerShape shape(const LmHeadTopKArgs& args, bool hopper, bool bulk, const Device& device) {
    if (hopper) return isHalf(args.format) ? hopperShape(args) : hopperFloatShape(args);
    if (isHalf(args.format)) return portableShape(args, device);
    return args.format == HeadFormat::kBinary ? binaryShape(args, bulk, device) : plainShape(args, 8, device);
  }
};

__global__ void clearPoolKernel(RowPool pool) {
  allowNextKernel();
  clearRow(pool, blockIdx.x);
}

// What comes before the sweeps: hidden in the form that the scorer needs, and an empty pool.
cudaError_t launchPrepare(const Plan& plan, bool split, const Buffers& buffers, cudaStream_t stream) {
  const HeadFormat format = plan.scan.args.format;
  if (format == HeadFormat::kBfloat16) return launchSplit<__nv_bfloat16>(plan, buffers, stream);
  if (format == HeadFormat::kFloat16) return launchSplit<__half>(plan, buffers, stream);
  if (format == HeadFormat::kBinary) return launchQuantize(plan, buffers.binary, stream);
  if (split) return launchSplit<float>(plan, buffers, stream);
  clearPoolKernel<<<static_cast<unsigned>(plan.scan.args.rows), 128, 0, stream>>>(plan.scan.pool);
  return cudaGetLastError();
}

// Rows that one launch serves: gridDim.y, the row groups, ends at 65,535, for the least number of rows a group.
constexpr int64_t kMaxRowsPerLaunch = 32768;

cudaError_t launchRows(const LmHeadTopKArgs& args, Path path, const Device& device, void* scratchMemory,
                       cudaStream_t stream) {
  Plans plans(args, path, device);
  Scratch scratch(scratchMemory);
  const Buffers buffers = takeBuffers(scratch, args, plans.split, {&plans.main, &plans.plain});
  for (Plan* plan : {&plans.main, &plans.plain}) {
    plan->scan.pool.published = buffers.published;
    plan->scan.pool.keys = buffers.poolKeys;
    plan->scan.pool.counts = buffers.poolCounts;
  }
  // The merge leaves the pool empty for the sweeps after the first.
  RETURN_IF_ERROR(launchPrepare(plans.main, plans.split, buffers, stream));

  for (int64_t done = 0; done < args.k; done += plans.main.scan.k) {
    for (Plan* plan : {&plans.main, &plans.plain}) {
      plan->scan.k = static_cast<int>(std::min<int64_t>(args.k - done, kMaxKPerSweep));
      plan->scan.bounds = done == 0 ? nullptr : buffers.bounds;
      plan->scan.logSums = done == 0 ? buffers.logSums : nullptr;
    }
    switch (args.format) {
      case HeadFormat::kFloat32:
        RETURN_IF_ERROR(launchFloat(plans.main, plans.plain, plans.hopper, buffers, stream));
        break;
      case HeadFormat::kBfloat16:
        RETURN_IF_ERROR(launchHalf<__nv_bfloat16>(plans.main, plans.plain, plans.hopper, buffers, stream));
        break;
      case HeadFormat::kFloat16:
        RETURN_IF_ERROR(launchHalf<__half>(plans.main, plans.plain, plans.hopper, buffers, stream));
        break;
      case HeadFormat::kBinary:
        RETURN_IF_ERROR(launchBinary(plans.main, plans.bulk, buffers.binary, buffers.lists, buffers.againLists, stream));
        break;
    }
    RETURN_IF_ERROR(launchMerge(plans.main, done, buffers.bounds, stream));
  }
  return cudaSuccess;
}

LmHeadTopKArgs sliceRows(const LmHeadTopKArgs& args, int64_t begin) {
  LmHeadTopKArgs slice = args;
  slice.rows = std::min(args.rows - begin, kMaxRowsPerLaunch);
  slice.hidden = args.hidden + begin * args.hiddenSize;
  slice.values = args.values + begin * args.k;
  slice.indices = args.indices + begin * args.k;
  if (args.logSumExp != nullptr) slice.logSumExp = args.logSumExp + begin;
  return slice;
}

}  // namespace

cudaError_t lmHeadTopKScratchBytes(const LmHeadTopKArgs& args, size_t* bytes, Path path) {
  Device device;
  RETURN_IF_ERROR(Device::current(&device));
  const LmHeadTopKArgs slice = sliceRows(args, 0);
  const Plans plans(slice, path, device);
  Scratch counter(nullptr);
  takeBuffers(counter, slice, plans.split, {&plans.main, &plans.plain});
  *bytes = counter.used();
  return cudaSuccess;
}

cudaError_t launchLmHeadTopK(const LmHeadTopKArgs& args, void* scratch, cudaStream_t stream, Path path) {
  Device device;
  RETURN_IF_ERROR(Device::current(&device));
  for (int64_t begin = 0; begin < args.rows; begin += kMaxRowsPerLaunch) {
    RETURN_IF_ERROR(launchRows(sliceRows(args, begin), path, device, scratch, stream));
  }
  return cudaSuccess;
}

}  // namespace lm_head
