#include "lm_head_topk.h"

#include <algorithm>

#include "lm_head_topk_binary.cuh"
#include "lm_head_topk_half.cuh"
#include "lm_head_topk_hopper.h"
#include "lm_head_topk_merge.cuh"
#include "lm_head_topk_plan.cuh"
#include "lm_head_topk_plain.cuh"

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
  uint32_t* planes;  // binary heads
  int* groupSums;
  float* rowScales;
  Key* partial;
  Key* bounds;
};

int64_t partsStride(const LmHeadTopKArgs& args) { return (args.hiddenSize + kPartsMultiple - 1) / kPartsMultiple * kPartsMultiple; }

bool isHalf(HeadFormat format) { return format == HeadFormat::kBfloat16 || format == HeadFormat::kFloat16; }

// `plans`: every plan whose sweeps use these buffers.
Buffers takeBuffers(Scratch& scratch, const LmHeadTopKArgs& args, std::initializer_list<Plan> plans) {
  Buffers buffers{};
  size_t partialKeys = 0;
  int64_t paddedRows = 0;
  for (const Plan& plan : plans) {
    partialKeys = std::max(partialKeys, static_cast<size_t>(args.rows) * plan.blocks * plan.scan.partialStride);
    paddedRows = std::max<int64_t>(paddedRows, static_cast<int64_t>(plan.rowGroups) * plan.scan.rowsPerBlock);
  }
  if (isHalf(args.format)) {
    buffers.parts = scratch.take<uint16_t>(2 * paddedRows * partsStride(args));
    buffers.splitRows = scratch.take<SplitRow>(args.rows);
  } else if (args.format == HeadFormat::kBinary) {
    buffers.planes = scratch.take<uint32_t>(args.rows * 8 * (args.hiddenSize / 32));
    buffers.groupSums = scratch.take<int>(args.rows * (args.hiddenSize / args.groupSize));
    buffers.rowScales = scratch.take<float>(args.rows);
  }
  buffers.partial = scratch.take<Key>(partialKeys);
  buffers.bounds = scratch.take<Key>(args.rows);
  return buffers;
}

cudaError_t launchMerge(const Plan& plan, int64_t kBefore, Key* bounds, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.scan.args;
  MergeParams params{};
  params.partial = plan.scan.partial;
  params.lists = plan.blocks;
  params.partialStride = plan.scan.partialStride;
  params.k = plan.scan.k;
  params.kBefore = kBefore;
  params.kTotal = args.k;
  params.vocabStart = args.vocabStart;
  params.values = args.values;
  params.indices = args.indices;
  params.bounds = bounds;
  int sortSize = 1;
  while (sortSize < params.k) sortSize *= 2;
  constexpr int kThreads = 1024;
  mergeKernel<kThreads><<<static_cast<unsigned>(args.rows), kThreads, sortSize * sizeof(Key), stream>>>(params, sortSize);
  return cudaGetLastError();
}

// --- float32, and rows of 16-bit heads that need plain arithmetic ---

using PlainSize = PlainScorer<LoadFloatAligned, 1>;

int plainRows(const LmHeadTopKArgs& args, int most, const Device& device) {
  return chooseRows(args.rows, 1, most, scorerBudget(device, PlainSize::kThreads),
                    [&](int rows) { return rows * PlainSize::sharedBytes(args.hiddenSize); });
}

template <class Load, int kRows>
cudaError_t launchPlain(const Plan& plan, const PlainScorerParams& params, cudaStream_t stream) {
  using Scorer = PlainScorer<Load, kRows>;
  return launchScan<Scorer>(plan, params, Scorer::sharedBytes(plan.scan.args.hiddenSize), stream);
}

template <class Load>
cudaError_t launchPlain(const Plan& plan, const PlainScorerParams& params, cudaStream_t stream) {
  switch (plan.scan.rowsPerBlock) {
    case 1:
      return launchPlain<Load, 1>(plan, params, stream);
    case 2:
      return launchPlain<Load, 2>(plan, params, stream);
    case 4:
      return launchPlain<Load, 4>(plan, params, stream);
    default:
      return launchPlain<Load, 8>(plan, params, stream);
  }
}

cudaError_t launchFloat(const Plan& plan, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.scan.args;
  const bool aligned16 = args.weightColumnStride == 1 && args.weightRowStride % 4 == 0 && args.hiddenSize % 4 == 0 &&
                         reinterpret_cast<uintptr_t>(args.weight) % 16 == 0;
  return aligned16 ? launchPlain<LoadFloatAligned>(plan, {nullptr}, stream) : launchPlain<LoadFloatStrided>(plan, {nullptr}, stream);
}

// --- 16-bit ---

template <int kStages>
size_t halfBytes(int rows) {
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

constexpr int kFewStages = 2, kManyStages = 4;

int halfRows(const LmHeadTopKArgs& args, const Device& device) {
  return chooseRows(args.rows, 4, 32, scorerBudget(device, HalfScorer<__half, 1, kFewStages>::kThreads), halfBytes<kFewStages>);
}

template <class Half, int kColumnTiles>
cudaError_t launchHalf(const Plan& plan, const HalfScorerParams& params, const Device& device, cudaStream_t stream) {
  using Deep = HalfScorer<Half, kColumnTiles, kManyStages>;
  using Shallow = HalfScorer<Half, kColumnTiles, kFewStages>;
  if (Deep::kSharedBytes + listBytes(plan.scan, Deep::kWorkers / 32) <= device.sharedBytes) {
    return launchScan<Deep>(plan, params, Deep::kSharedBytes, stream);
  }
  return launchScan<Shallow>(plan, params, Shallow::kSharedBytes, stream);
}

template <class Half>
cudaError_t launchPortable(const Plan& plan, const HalfScorerParams& params, const Device& device, cudaStream_t stream) {
  switch (plan.scan.rowsPerBlock) {
    case 4:
      return launchHalf<Half, 1>(plan, params, device, stream);
    case 8:
      return launchHalf<Half, 2>(plan, params, device, stream);
    case 16:
      return launchHalf<Half, 4>(plan, params, device, stream);
    default:
      return launchHalf<Half, 8>(plan, params, device, stream);
  }
}

template <class Half>
cudaError_t launchSplit(const Plan& plan, const Buffers& buffers, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.scan.args;
  const unsigned rows = plan.rowGroups * plan.scan.rowsPerBlock;
  splitHiddenKernel<Half><<<rows, 256, 0, stream>>>(args.hidden, args.rows, args.hiddenSize, partsStride(args),
                                                    static_cast<Half*>(buffers.parts), buffers.splitRows);
  return cudaGetLastError();
}

template <class Half>
cudaError_t launchHalf(const Plan& plan, const Plan& plainPlan, const Buffers& buffers, bool hopper, const Device& device,
                       cudaStream_t stream) {
  const HalfScorerParams params{buffers.parts, partsStride(plan.scan.args), buffers.splitRows};
  if (hopper) {
    RETURN_IF_ERROR(launchHopper(plan, params, stream));
  } else {
    RETURN_IF_ERROR(launchPortable<Half>(plan, params, device, stream));
  }
  // Rows that were not split; its blocks end at once when there is none.
  const PlainScorerParams plainParams{buffers.splitRows};
  if (plainPlan.scan.rowsPerBlock == 1) return launchPlain<LoadHalf<Half>, 1>(plainPlan, plainParams, stream);
  return launchPlain<LoadHalf<Half>, 4>(plainPlan, plainParams, stream);
}

// --- binary ---

template <int kRows>
cudaError_t launchBinary(const Plan& plan, const BinaryScorerParams& params, cudaStream_t stream) {
  using Scorer = BinaryScorer<kRows>;
  const LmHeadTopKArgs& args = plan.scan.args;
  return launchScan<Scorer>(plan, params, Scorer::sharedBytes(args.hiddenSize, args.groupSize), stream);
}

int binaryRows(const LmHeadTopKArgs& args, const Device& device) {
  return chooseRows(args.rows, 1, 8, scorerBudget(device, BinaryScorer<1>::kThreads), [&](int rows) {
    return rows * BinaryScorer<1>::sharedBytes(args.hiddenSize, args.groupSize);
  });
}

cudaError_t launchQuantize(const LmHeadTopKArgs& args, const Buffers& buffers, cudaStream_t stream) {
  quantizeHiddenKernel<<<static_cast<unsigned>(args.rows), 256, 0, stream>>>(args.hidden, args.hiddenSize, args.groupSize, buffers.planes,
                                                                            buffers.groupSums, buffers.rowScales);
  return cudaGetLastError();
}

cudaError_t launchBinary(const Plan& plan, const Buffers& buffers, cudaStream_t stream) {
  const BinaryScorerParams params{buffers.planes, buffers.groupSums, buffers.rowScales};
  switch (plan.scan.rowsPerBlock) {
    case 1:
      return launchBinary<1>(plan, params, stream);
    case 2:
      return launchBinary<2>(plan, params, stream);
    case 4:
      return launchBinary<4>(plan, params, stream);
    default:
      return launchBinary<8>(plan, params, stream);
  }
}

// --- all formats ---

struct Plans {
  Plan main;
  Plan plain;  // 16-bit heads: the rows that need plain arithmetic; writes the same lists as `main`

  bool hopper;

  Plans(const LmHeadTopKArgs& args, Path path, const Device& device)
      : main(mainPlan(args, path, device)), plain(main), hopper(usesHopper(args, path, device)) {
    if (!isHalf(args.format)) return;
    plain.scan.rowsPerBlock = plainRows(args, 4, device) == 4 ? 4 : 1;
    plain.rowGroups = static_cast<int>((args.rows + plain.scan.rowsPerBlock - 1) / plain.scan.rowsPerBlock);
  }

 private:
  static bool usesHopper(const LmHeadTopKArgs& args, Path path, const Device& device) {
    return isHalf(args.format) && path == Path::kBest && device.computeCapability == 90;
  }

  static Plan mainPlan(const LmHeadTopKArgs& args, Path path, const Device& device) {
    if (usesHopper(args, path, device)) return Plan(args, hopperRows(args), hopperTileVocab(args), device);
    if (isHalf(args.format)) return Plan(args, halfRows(args, device), HalfScorer<__half, 1, kFewStages>::kTileVocab, device);
    if (args.format == HeadFormat::kBinary) return Plan(args, binaryRows(args, device), BinaryScorer<1>::kTileVocab, device);
    return Plan(args, plainRows(args, 8, device), PlainSize::kTileVocab, device);
  }
};

// Rows that one launch serves: gridDim.y, the row groups, ends at 65,535, for the least number of rows a group.
constexpr int64_t kMaxRowsPerLaunch = 32768;

cudaError_t launchRows(const LmHeadTopKArgs& args, Path path, const Device& device, void* scratchMemory, cudaStream_t stream) {
  Plans plans(args, path, device);
  Scratch scratch(scratchMemory);
  const Buffers buffers = takeBuffers(scratch, args, {plans.main, plans.plain});
  if (args.format == HeadFormat::kBfloat16) RETURN_IF_ERROR(launchSplit<__nv_bfloat16>(plans.main, buffers, stream));
  if (args.format == HeadFormat::kFloat16) RETURN_IF_ERROR(launchSplit<__half>(plans.main, buffers, stream));
  if (args.format == HeadFormat::kBinary) RETURN_IF_ERROR(launchQuantize(args, buffers, stream));

  for (int64_t done = 0; done < args.k; done += plans.main.scan.k) {
    for (Plan* plan : {&plans.main, &plans.plain}) {
      plan->scan.k = static_cast<int>(std::min<int64_t>(args.k - done, kMaxKPerSweep));
      plan->scan.partial = buffers.partial;
      plan->scan.bounds = done == 0 ? nullptr : buffers.bounds;
    }
    switch (args.format) {
      case HeadFormat::kFloat32:
        RETURN_IF_ERROR(launchFloat(plans.main, stream));
        break;
      case HeadFormat::kBfloat16:
        RETURN_IF_ERROR(launchHalf<__nv_bfloat16>(plans.main, plans.plain, buffers, plans.hopper, device, stream));
        break;
      case HeadFormat::kFloat16:
        RETURN_IF_ERROR(launchHalf<__half>(plans.main, plans.plain, buffers, plans.hopper, device, stream));
        break;
      case HeadFormat::kBinary:
        RETURN_IF_ERROR(launchBinary(plans.main, buffers, stream));
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
  return slice;
}

}  // namespace

cudaError_t lmHeadTopKScratchBytes(const LmHeadTopKArgs& args, size_t* bytes, Path path) {
  Device device;
  RETURN_IF_ERROR(Device::current(&device));
  const LmHeadTopKArgs slice = sliceRows(args, 0);
  const Plans plans(slice, path, device);
  Scratch counter(nullptr);
  takeBuffers(counter, slice, {plans.main, plans.plain});
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
