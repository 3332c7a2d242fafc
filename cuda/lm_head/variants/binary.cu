#include "binary.h"
#include "../mainloops/binary_planes.cuh"
#include "../mainloops/binary_bytes.cuh"
#include "../prologue/quantize_hidden.cuh"

namespace lm_head {
namespace {

BinaryLayout layoutOf(const LmHeadTopKArgs& args) { return {args.hiddenSize, args.groupSize}; }

template <bool kGroup128, bool kBulk>
struct Scorers {
  using One = BinaryFewScorer<1, kGroup128, kBulk>;
  using Two = BinaryFewScorer<2, kGroup128, kBulk>;
  using Eight = BinaryManyScorer<1, 1, 16, kGroup128, 4, kBulk>;
  using Sixteen = BinaryManyScorer<2, 1, 16, kGroup128, 4, kBulk>;
  // One more warp would leave too few registers for each.
  using ThirtyTwo = BinaryManyScorer<4, 2, 8, kGroup128, 2, false>;

  // visit(scorer type) for the scorer of this many rows.
  template <class Visit>
  static auto visit(int rowsPerBlock, Visit visit) {
    switch (rowsPerBlock) {
      case 1:
        return visit(static_cast<One*>(nullptr));
      case 2:
        return visit(static_cast<Two*>(nullptr));
      case 8:
        return visit(static_cast<Eight*>(nullptr));
      case 16:
        return visit(static_cast<Sixteen*>(nullptr));
      default:
        return visit(static_cast<ThirtyTwo*>(nullptr));
    }
  }
};

template <class Visit>
auto visitScorer(const LmHeadTopKArgs& args, int rowsPerBlock, bool bulk, Visit visit) {
  if (args.groupSize == 128)
    return bulk ? Scorers<true, true>::visit(rowsPerBlock, visit) : Scorers<true, false>::visit(rowsPerBlock, visit);
  return bulk ? Scorers<false, true>::visit(rowsPerBlock, visit) : Scorers<false, false>::visit(rowsPerBlock, visit);
}

// Whether a scorer leaves room for what lists need at the least.
bool fits(const ScorerShape& shape, const LmHeadTopKArgs& args, const Device& device) {
  ScanParams scan{};
  scan.args = args;
  scan.rowsPerBlock = shape.rowsPerBlock;
  scan.logSumParts = shape.logSumParts();
  return shape.sharedBytes + listBytes(scan, shape.workers / 32, 0) <= device.sharedBytes;
}

HiddenForm hiddenForm(const Plan& plan, const BinaryWay& way) {
  if (way.warpgroups) return HiddenForm::kSwizzledBytes;
  return plan.scorer.rowsPerBlock <= 2 ? HiddenForm::kPlanes : HiddenForm::kBytes;
}

BinaryHidden hiddenOf(const Plan& plan, const BinaryWay& way) {
  return {plan.scorer.rowsPerBlock, layoutOf(plan.scan.args), hiddenForm(plan, way)};
}

}  // namespace

BinaryWay binaryWay(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device) {
  const bool best = tuning.path == Path::kBest;
  const bool warpgroups = best && device.computeCapability == 90 && args.groupSize == 128 && args.rows > 16 &&
                          fits(binaryHopperShape(args), args, device);
  BinaryWay way{best && device.computeCapability >= 90, warpgroups};
  // Long rows of hidden need the memory of its stages.
  way.bulk = way.bulk && fits(binaryShape(args, way, device), args, device);
  return way;
}

// The scorer of all rows, or of as many as fit.
ScorerShape binaryShape(const LmHeadTopKArgs& args, const BinaryWay& way, const Device& device) {
  if (way.warpgroups) return binaryHopperShape(args);
  ScorerShape shape{};
  for (const int rows : {32, 16, 8, 2, 1}) {
    const int fewer = rows == 32 ? 16 : rows == 16 ? 8 : rows == 8 ? 2 : rows == 2 ? 1 : 0;
    if (args.rows <= fewer) continue;
    shape = visitScorer(args, rows, way.bulk, [&](auto* type) -> ScorerShape {
      using Scorer = std::remove_pointer_t<decltype(type)>;
      return ScorerShape::of<Scorer>(rows, Scorer::sharedBytes(layoutOf(args)));
    });
    if (fits(shape, args, device)) break;
  }
  return shape;
}

bool binaryFits(const LmHeadTopKArgs& args, const Tuning& tuning, const Device& device) {
  return fits(binaryShape(args, binaryWay(args, tuning, device), device), args, device);
}

size_t binaryHiddenBytes(const Plan& plan, const BinaryWay& way) {
  return static_cast<size_t>(plan.rowGroups) * hiddenOf(plan, way).bytes();
}

cudaError_t launchQuantize(const Plan& plan, const BinaryWay& way, unsigned char* hidden, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.scan.args;
  const BinaryHidden shape = hiddenOf(plan, way);
  const QuantizeParams params{args,   hiddenForm(plan, way), shape, static_cast<int>(args.groupSize / 32),
                              hidden, plan.scan.pool};
  // A warp a block of columns, where no groups go across parts.
  constexpr int kThreads = 512, kWarps = kThreads / 32;
  const bool parts = kWarps * 128 % args.groupSize == 0;
  const dim3 grid(static_cast<unsigned>(parts ? (shape.blocks + kWarps - 1) / kWarps : 1),
                  static_cast<unsigned>(plan.rowGroups) * shape.rows);
  quantizeHiddenKernel<kThreads><<<grid, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

cudaError_t launchBinary(const Plan& plan, const BinaryWay& way, const unsigned char* hidden, Key* lists,
                         Key* againLists, cudaStream_t stream) {
  if (way.warpgroups) return launchBinaryHopper(plan, hidden, lists, againLists, stream);
  return visitScorer(plan.scan.args, plan.scorer.rowsPerBlock, way.bulk, [&](auto* type) {
    using Scorer = std::remove_pointer_t<decltype(type)>;
    const BinaryScorerParams params{hidden};
    return launchScan<Scorer>(plan, params, lists, againLists, stream);
  });
}

}  // namespace lm_head
