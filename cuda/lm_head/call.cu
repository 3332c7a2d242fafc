#include <algorithm>

#include "lm_head.h"
#include "variants/binary.h"
#include "mainloops/mma_half.cuh"
#include "variants/sm90.h"
#include "merge.cuh"
#include "mainloops/fp32_rows.cuh"
#include "plan.cuh"

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
  unsigned char* binaryHidden;
  uint16_t* published;
  Key* poolKeys;
  int* poolCounts;
  int* poolTaken;
  Key* bounds;
  LogSum* logSums;
  Key* lists;
  Key* againLists;
};

int64_t partsStride(const LmHeadTopKArgs& args) {
  return (args.hiddenSize + kPartsMultiple - 1) / kPartsMultiple * kPartsMultiple;
}

bool isHalf(HeadFormat format) { return format == HeadFormat::kBfloat16 || format == HeadFormat::kFloat16; }

// `split`: hidden is cut into parts.
Buffers takeBuffers(Scratch& scratch, const LmHeadTopKArgs& args, bool split, const BinaryWay& way, const Plan& plan) {
  const size_t rows = args.rows;
  Buffers buffers{};
  if (split) {
    const size_t parts = 2 * plan.rowGroups * plan.scorer.rowsPerBlock * partsStride(args);
    buffers.parts =
        isHalf(args.format) ? static_cast<void*>(scratch.take<uint16_t>(parts)) : scratch.take<float>(parts);
    buffers.splitRows = scratch.take<SplitRow>(rows);
  } else if (args.format == HeadFormat::kBinary) {
    buffers.binaryHidden = scratch.take<unsigned char>(binaryHiddenBytes(plan, way));
  }
  buffers.published = scratch.take<uint16_t>(rows * kMaxPoolBlocks);
  buffers.poolKeys = scratch.take<Key>(rows * plan.scan.pool.capacity);
  buffers.poolCounts = scratch.take<int>(rows);
  buffers.poolTaken = scratch.take<int>(rows);
  buffers.bounds = scratch.take<Key>(rows);
  if (args.logSumExp != nullptr) buffers.logSums = scratch.take<LogSum>(rows * plan.scan.logSumsOfRow);
  buffers.lists = scratch.take<Key>(rows * plan.blocks * plan.globalListKeys);
  buffers.againLists = scratch.take<Key>(plan.mayLose ? rows * plan.againCapacity : 0);
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
  params.logSumsOfRow = plan.scan.logSumsOfRow;
  params.logSumExp = args.logSumExp;
  int sortSize = 32;
  while (sortSize < params.k) sortSize *= 2;
  constexpr int kThreads = 1024;
  return launchDependent(plan.device.computeCapability, mergeKernel<kThreads>, dim3(static_cast<unsigned>(args.rows)),
                         kThreads, sortSize * sizeof(Key), stream, params, sortSize);
}

// --- float32 ---

// A hidden row that does not fit in shared memory is read from where it lies: then the shape has no shared bytes.
ScorerShape plainShape(const LmHeadTopKArgs& args, const Device& device) {
  using OneRow = PlainScorer<LoadFloatAligned, 1>;
  const auto bytes = [&](int rows) { return rows * OneRow::sharedBytes(args.hiddenSize); };
  const size_t budget = scorerBudget(device, OneRow::kWorkers);
  const int rows = chooseRows(args.rows, 1, 8, budget, bytes);
  return ScorerShape::of<OneRow>(rows, bytes(rows) <= budget ? bytes(rows) : 0);
}

template <class Load>
cudaError_t launchPlain(const Plan& plan, const Buffers& buffers, cudaStream_t stream) {
  if (plan.scorer.sharedBytes == 0) {
    using Scorer = PlainRowsScorer<Load, PlainScorer<Load, 1>::kThreads>;
    return launchScan<Scorer>(plan, {nullptr}, buffers.lists, buffers.againLists, stream);
  }
  switch (plan.scorer.rowsPerBlock) {
    case 1:
      return launchScan<PlainScorer<Load, 1>>(plan, {}, buffers.lists, buffers.againLists, stream);
    case 2:
      return launchScan<PlainScorer<Load, 2>>(plan, {}, buffers.lists, buffers.againLists, stream);
    case 4:
      return launchScan<PlainScorer<Load, 4>>(plan, {}, buffers.lists, buffers.againLists, stream);
    default:
      return launchScan<PlainScorer<Load, 8>>(plan, {}, buffers.lists, buffers.againLists, stream);
  }
}

// Whether four neighbouring weights can be loaded at once, from any id and column that is a multiple of 4.
bool isAligned(const LmHeadTopKArgs& args) {
  return args.weightColumnStride == 1 && args.weightRowStride % 4 == 0 && args.hiddenSize % 4 == 0 &&
         reinterpret_cast<uintptr_t>(args.weight) % 16 == 0;
}

cudaError_t launchFloat(const Plan& plan, bool hopper, const Buffers& buffers, cudaStream_t stream) {
  if (hopper) {
    const SplitParams params{buffers.parts, partsStride(plan.scan.args), buffers.splitRows};
    return launchHopperFloat(plan, params, buffers.lists, buffers.againLists, stream);
  }
  if (isAligned(plan.scan.args)) return launchPlain<LoadFloatAligned>(plan, buffers, stream);
  return launchPlain<LoadFloatStrided>(plan, buffers, stream);
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
  return ScorerShape::of<Smallest>(rows, deep <= budget ? deep : portableBytes<kFewStages>(rows));
}

template <class Half, int kColumnTiles>
cudaError_t launchPortable(const Plan& plan, const SplitParams& params, const Buffers& buffers, cudaStream_t stream) {
  using Deep = HalfScorer<Half, kColumnTiles, kManyStages>;
  using Shallow = HalfScorer<Half, kColumnTiles, kFewStages>;
  using RestScorer = PlainRowsScorer<LoadHalf<Half>, Deep::kWorkers>;
  if (plan.scorer.sharedBytes == Deep::kSharedBytes)
    return launchScan<Deep, RestScorer>(plan, params, buffers.lists, buffers.againLists, stream);
  return launchScan<Shallow, RestScorer>(plan, params, buffers.lists, buffers.againLists, stream);
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
cudaError_t launchHalf(const Plan& plan, bool hopper, const Buffers& buffers, cudaStream_t stream) {
  const SplitParams params{buffers.parts, partsStride(plan.scan.args), buffers.splitRows};
  if (hopper) return launchHopperHalf(plan, params, buffers.lists, buffers.againLists, stream);
  return launchPortable<Half>(plan, params, buffers, stream);
}

// --- all formats ---

// What a format and a device ask for.
struct FormatPlan {
  bool hopper;
  bool split;  // hidden is cut into parts
  BinaryWay binary;
  Plan plan;

  FormatPlan(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device)
      : hopper(tuning.path == Path::kBest && device.computeCapability == 90 &&
               (isHalf(args.format) || (args.format == HeadFormat::kFloat32 && isAligned(args)))),
        split(hopper || isHalf(args.format)),
        binary(args.format == HeadFormat::kBinary ? binaryWay(args, tuning, device) : BinaryWay{}),
        plan(args, tuning, shape(args, device), device) {}

 private:
  ScorerShape shape(const LmHeadTopKArgs& args, const Device& device) const {
    if (hopper) return isHalf(args.format) ? hopperHalfShape(args) : hopperFloatShape(args);
    if (isHalf(args.format)) return portableShape(args, device);
    return args.format == HeadFormat::kBinary ? binaryShape(args, binary, device) : plainShape(args, device);
  }
};

__global__ void clearPoolKernel(RowPool pool) {
  allowNextKernel();
  clearRow(pool, blockIdx.x);
}

// What comes before the sweeps: hidden in the form that the scorer needs, and an empty pool.
cudaError_t launchPrepare(const Plan& plan, bool split, const BinaryWay& way, const Buffers& buffers,
                          cudaStream_t stream) {
  const HeadFormat format = plan.scan.args.format;
  if (format == HeadFormat::kBfloat16) return launchSplit<__nv_bfloat16>(plan, buffers, stream);
  if (format == HeadFormat::kFloat16) return launchSplit<__half>(plan, buffers, stream);
  if (format == HeadFormat::kBinary) return launchQuantize(plan, way, buffers.binaryHidden, stream);
  if (split) return launchSplit<float>(plan, buffers, stream);
  clearPoolKernel<<<static_cast<unsigned>(plan.scan.args.rows), 128, 0, stream>>>(plan.scan.pool);
  return cudaGetLastError();
}

// Rows that one launch serves: gridDim.y, the row groups, ends at 65,535, for the least number of rows a group.
constexpr int64_t kMaxRowsPerLaunch = 32768;

cudaError_t launchRows(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device, void* scratchMemory,
                       cudaStream_t stream) {
  FormatPlan chosen(args, tuning, device);
  Plan& plan = chosen.plan;
  Scratch scratch(scratchMemory);
  const Buffers buffers = takeBuffers(scratch, args, chosen.split, chosen.binary, plan);
  plan.scan.pool.published = buffers.published;
  plan.scan.pool.keys = buffers.poolKeys;
  plan.scan.pool.counts = buffers.poolCounts;
  plan.scan.pool.taken = buffers.poolTaken;
  // The merge leaves the pool empty for the sweeps after the first.
  RETURN_IF_ERROR(launchPrepare(plan, chosen.split, chosen.binary, buffers, stream));

  for (int64_t done = 0; done < args.k; done += plan.scan.k) {
    plan.scan.k = static_cast<int>(std::min<int64_t>(args.k - done, kMaxKPerSweep));
    plan.scan.bounds = done == 0 ? nullptr : buffers.bounds;
    plan.scan.logSums = done == 0 ? buffers.logSums : nullptr;
    switch (args.format) {
      case HeadFormat::kFloat32:
        RETURN_IF_ERROR(launchFloat(plan, chosen.hopper, buffers, stream));
        break;
      case HeadFormat::kBfloat16:
        RETURN_IF_ERROR(launchHalf<__nv_bfloat16>(plan, chosen.hopper, buffers, stream));
        break;
      case HeadFormat::kFloat16:
        RETURN_IF_ERROR(launchHalf<__half>(plan, chosen.hopper, buffers, stream));
        break;
      case HeadFormat::kBinary:
        RETURN_IF_ERROR(
            launchBinary(plan, chosen.binary, buffers.binaryHidden, buffers.lists, buffers.againLists, stream));
        break;
    }
    RETURN_IF_ERROR(launchMerge(plan, done, buffers.bounds, stream));
  }
  return cudaSuccess;
}

LmHeadTopKArgs sliceRows(const LmHeadTopKArgs& args, int64_t begin) {
  LmHeadTopKArgs slice = args;
  slice.rows = std::min(args.rows - begin, kMaxRowsPerLaunch);
  slice.hidden = args.hidden + begin * args.hiddenSize;
  if (args.hiddenScale != nullptr) slice.hiddenScale = args.hiddenScale + begin;
  slice.values = args.values + begin * args.k;
  slice.indices = args.indices + begin * args.k;
  if (args.logSumExp != nullptr) slice.logSumExp = args.logSumExp + begin;
  return slice;
}

}  // namespace

cudaError_t lmHeadTopKScratchBytes(const LmHeadTopKArgs& args, size_t* bytes, const Tuning& tuning) {
  Device device;
  RETURN_IF_ERROR(Device::current(&device));
  const LmHeadTopKArgs slice = sliceRows(args, 0);
  if (args.format == HeadFormat::kBinary && !binaryFits(slice, tuning, device)) return cudaErrorNotSupported;
  const FormatPlan chosen(slice, tuning, device);
  Scratch counter(nullptr);
  takeBuffers(counter, slice, chosen.split, chosen.binary, chosen.plan);
  *bytes = counter.used();
  return cudaSuccess;
}

cudaError_t launchLmHeadTopK(const LmHeadTopKArgs& args, void* scratch, cudaStream_t stream, const Tuning& tuning) {
  Device device;
  RETURN_IF_ERROR(Device::current(&device));
  for (int64_t begin = 0; begin < args.rows; begin += kMaxRowsPerLaunch) {
    RETURN_IF_ERROR(launchRows(sliceRows(args, begin), tuning, device, scratch, stream));
  }
  return cudaSuccess;
}

}  // namespace lm_head
