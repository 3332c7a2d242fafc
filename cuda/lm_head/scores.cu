#include <algorithm>

#include "../../kernels/core/binary_layout.h"
#include "../../kernels/core/finish.h"
#include "../common/cuda_check.h"
#include "../common/dependent_launch.cuh"
#include "buffers.h"
#include "prologue/index_adjusted.h"
#include "scores.h"
#include "variants/split.cuh"

namespace lm_head {
namespace {

// Rows that are scored together, each against the ids of all of them; and memory for copies of weights.
constexpr int64_t kRowsTogether = 64, kCopiedBytes = 16 << 20, kLeastIds = 64;

// A part of the call: some ids of some rows.
struct Part {
  int64_t firstRow, rows;
  int64_t firstId, ids;  // of each row
};

int64_t bytesOfId(const LmHeadTopKArgs& head) {
  switch (head.format) {
    case HeadFormat::kFloat32:
      return head.hiddenSize * static_cast<int64_t>(sizeof(float));
    case HeadFormat::kBinary:
      return BinaryLayout{head.hiddenSize, head.groupSize}.tileWords() * 4 / BinaryLayout::kTileIds;
    default:
      return head.weightRowStride * 2;
  }
}

// What is copied of an id, in words of 32 bits, or single columns.
__device__ inline int64_t piecesOfId(const LmHeadTopKArgs& head) {
  if (head.format == HeadFormat::kFloat32) return head.hiddenSize;
  if (head.format != HeadFormat::kBinary) return head.weightRowStride / 2;
  const BinaryLayout layout{head.hiddenSize, head.groupSize};
  return layout.words() + layout.groups();
}

__device__ inline void copyPiece(const LmHeadTopKArgs& head, int64_t from, int64_t to, int64_t piece, uint32_t* copy) {
  const auto* words = static_cast<const uint32_t*>(head.weight);
  if (head.format == HeadFormat::kFloat32) {
    copy[to * head.hiddenSize + piece] = words[from * head.weightRowStride + piece * head.weightColumnStride];
  } else if (head.format != HeadFormat::kBinary) {
    const int64_t stride = head.weightRowStride / 2;
    copy[to * stride + piece] = words[from * stride + piece];
  } else {
    constexpr int kTileIds = BinaryLayout::kTileIds;
    const BinaryLayout layout{head.hiddenSize, head.groupSize};
    const int64_t fromTile = from / kTileIds * layout.tileWords(), toTile = to / kTileIds * layout.tileWords();
    const int fromPlace = static_cast<int>(from % kTileIds), toPlace = static_cast<int>(to % kTileIds);
    if (piece < layout.words()) {
      copy[toTile + layout.wordOffset(toPlace, piece)] = words[fromTile + layout.wordOffset(fromPlace, piece)];
      return;
    }
    const int64_t group = piece - layout.words();
    reinterpret_cast<uint16_t*>(copy + toTile)[layout.scaleOffset(toPlace, group)] =
        reinterpret_cast<const uint16_t*>(words + fromTile)[layout.scaleOffset(fromPlace, group)];
  }
}

// A block an id. What this head does not have becomes a copy of its first id.
__global__ void copyWeightsKernel(ScoresArgs args, Part part, uint32_t* copy) {
  const LmHeadTopKArgs& head = args.head;
  const int64_t to = blockIdx.x, row = part.firstRow + to / part.ids;
  const int64_t id = args.ids[row * args.count + part.firstId + to % part.ids] - head.vocabStart;
  const int64_t from = id >= 0 && id < head.vocabSize ? id : 0;
  for (int64_t piece = threadIdx.x; piece < piecesOfId(head); piece += blockDim.x) {
    copyPiece(head, from, to, piece, copy);
  }
}

// Bias and options, and NaN where there is no score.
__global__ void finishScoresKernel(ScoresArgs args) {
  waitForPreviousKernel();
  const LmHeadTopKArgs& head = args.head;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= head.rows * args.count) return;
  const int64_t row = i / args.count;
  const int32_t id = args.ids[i];
  const int64_t place = id - head.vocabStart;
  float score = NAN;
  if (place >= 0 && place < head.vocabSize) {
    score = addRounded(args.scores[i], EpilogueParams{nullptr, head.bias}.biasOf(place));
    score = withOptions(head.options, row, head.vocabSize, place, id, score);
  }
  args.scores[i] = score;
}

// Ids of each row that are scored together.
int64_t idsTogether(const ScoresArgs& args) {
  const int64_t ids = std::max(kLeastIds, kCopiedBytes / bytesOfId(args.head));
  return std::clamp<int64_t>(ids / std::min(args.head.rows, kRowsTogether), 1, args.count);
}

// A head of copies, and the rows of hidden that it is for.
LmHeadTopKArgs headOf(const ScoresArgs& args, const Part& part, void* copy) {
  LmHeadTopKArgs head = args.head;
  head.rows = part.rows;
  head.vocabSize = part.rows * part.ids;
  head.vocabStart = 0;
  head.k = 1;
  head.hidden += part.firstRow * head.hiddenSize;
  if (head.hiddenScale != nullptr) head.hiddenScale += part.firstRow;
  head.weight = copy;
  if (head.format == HeadFormat::kFloat32) {
    head.weightRowStride = head.hiddenSize;
    head.weightColumnStride = 1;
  }
  head.bias = nullptr;
  head.options = {};
  head.draw = {};
  head.rank = {};
  head.sumsAlone = true;
  head.values = head.logSumExp = nullptr;
  head.indices = head.logSumState = nullptr;
  return head;
}

// Copies of weights that cannot be multiplied on tensor cores where they lie are not so either: other bits.
Tuning tuningOf(const ScoresArgs& args, Tuning tuning) {
  if (args.head.format == HeadFormat::kFloat32 && !isAligned(args.head)) tuning.path = Path::kPortable;
  return tuning;
}

struct Memory {
  AdjustIndex adjustIndex{};
  unsigned char* copy;
  void* sweep;

  Memory(Scratch& scratch, const ScoresArgs& args, size_t sweepBytes) {
    const AdjustOption& adjust = args.head.options.adjust;
    if (adjust.ids != nullptr) adjustIndex = takeAdjustIndex(scratch, args.head);
    const int64_t ids = std::min(args.head.rows, kRowsTogether) * idsTogether(args);
    const bool binary = args.head.format == HeadFormat::kBinary;
    // Binary heads are whole tiles.
    const int64_t most = binary ? BinaryLayout::tiles(ids) * BinaryLayout::kTileIds : ids;
    copy = scratch.take<unsigned char>(most * bytesOfId(args.head));
    sweep = scratch.take<unsigned char>(sweepBytes);
  }
};

cudaError_t planOf(const ScoresArgs& args, const Part& part, void* copy, const Tuning& tuning, Plan* plan) {
  return Plan::make(headOf(args, part, copy), tuningOf(args, tuning), plan);
}

// What the parts take at most.
cudaError_t sweepBytesOf(const ScoresArgs& args, const Tuning& tuning, size_t* bytes) {
  *bytes = 0;
  const int64_t rows = std::min(args.head.rows, kRowsTogether), ids = idsTogether(args);
  for (const int64_t someRows : {rows, args.head.rows % rows}) {
    for (const int64_t someIds : {ids, args.count % ids}) {
      if (someRows == 0 || someIds == 0) continue;
      Plan plan;
      // Scratch memory, and so copies, are aligned.
      RETURN_IF_ERROR(planOf(args, {0, someRows, 0, someIds}, nullptr, tuning, &plan));
      Scratch counter(nullptr);
      const Buffers buffers(counter, plan);
      *bytes = std::max(*bytes, counter.used());
    }
  }
  return cudaSuccess;
}

cudaError_t launchPart(const ScoresArgs& args, const Part& part, const Memory& memory, const Tuning& tuning,
                       cudaStream_t stream) {
  constexpr int kThreads = 256;
  if (args.head.format == HeadFormat::kBinary) {
    // Scales of groups that do not exist are 0.
    const int64_t tileBytes = BinaryLayout{args.head.hiddenSize, args.head.groupSize}.tileWords() * 4;
    RETURN_IF_ERROR(cudaMemsetAsync(memory.copy, 0, BinaryLayout::tiles(part.rows * part.ids) * tileBytes, stream));
  }
  copyWeightsKernel<<<static_cast<unsigned>(part.rows * part.ids), kThreads, 0, stream>>>(
      args, part, reinterpret_cast<uint32_t*>(memory.copy));
  RETURN_IF_ERROR(cudaGetLastError());
  Plan plan;
  RETURN_IF_ERROR(planOf(args, part, memory.copy, tuning, &plan));
  Scratch scratch(memory.sweep);
  const Buffers buffers(scratch, plan);
  RETURN_IF_ERROR(plan.variant->prepare(plan, buffers.pool, buffers.hidden, stream));
  SweepParams sweep = sweepParams(plan, buffers);
  sweep.topK.k = 1;
  sweep.sumsOut = {args.scores + part.firstRow * args.count + part.firstId, static_cast<int>(part.ids), args.count};
  return plan.variant->sweep(plan, sweep, buffers.hidden, stream);
}

}  // namespace

cudaError_t lmHeadScoresScratchBytes(const ScoresArgs& args, size_t* bytes, const Tuning& tuning) {
  size_t sweepBytes = 0;
  RETURN_IF_ERROR(sweepBytesOf(args, tuning, &sweepBytes));
  Scratch counter(nullptr);
  const Memory memory(counter, args, sweepBytes);
  *bytes = counter.used();
  return cudaSuccess;
}

cudaError_t launchLmHeadScores(const ScoresArgs& args, void* scratchMemory, cudaStream_t stream, const Tuning& tuning) {
  size_t sweepBytes = 0;
  RETURN_IF_ERROR(sweepBytesOf(args, tuning, &sweepBytes));
  Scratch scratch(scratchMemory);
  const Memory memory(scratch, args, sweepBytes);
  const int64_t rows = std::min(args.head.rows, kRowsTogether), ids = idsTogether(args);
  for (int64_t row = 0; row < args.head.rows; row += rows) {
    for (int64_t id = 0; id < args.count; id += ids) {
      const Part part{row, std::min(rows, args.head.rows - row), id, std::min(ids, args.count - id)};
      RETURN_IF_ERROR(launchPart(args, part, memory, tuning, stream));
    }
  }
  ScoresArgs finish = args;
  finish.head.options.adjust.index = memory.adjustIndex;
  RETURN_IF_ERROR(launchIndexAdjusted(finish.head, stream));
  constexpr int kThreads = 256;
  const int64_t blocks = (args.head.rows * args.count + kThreads - 1) / kThreads;
  return launchDependent(finishScoresKernel, dim3(static_cast<unsigned>(blocks)), kThreads, 0, stream, finish);
}

}  // namespace lm_head
