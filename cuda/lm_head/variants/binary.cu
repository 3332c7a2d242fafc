// Binary heads on every GPU from compute capability 8.0 on; with bulk copies from 9.0 on.
#include "../mainloops/binary_bytes.cuh"
#include "../mainloops/binary_planes.cuh"
#include "binary.cuh"
#include "table.h"

namespace lm_head {
namespace {

template <bool kGroup128, bool kBulk>
struct Mainloops {
  using One = BinaryPlanesMainloop<1, kGroup128, kBulk>;
  using Two = BinaryPlanesMainloop<2, kGroup128, kBulk>;
  using Eight = BinaryBytesMainloop<1, 1, 16, kGroup128, 4, kBulk>;
  using Sixteen = BinaryBytesMainloop<2, 1, 16, kGroup128, 4, kBulk>;
  // One more warp would leave too few registers for each.
  using ThirtyTwo = BinaryBytesMainloop<4, 2, 8, kGroup128, 2, false>;

  // visit(main loop type) for the one of this many rows.
  template <class Visit>
  static auto visit(int rows, Visit visit) {
    switch (rows) {
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

template <bool kBulk, class Visit>
auto visitMainloop(const LmHeadTopKArgs& args, int rows, Visit visit) {
  return args.groupSize == 128 ? Mainloops<true, kBulk>::visit(rows, visit)
                               : Mainloops<false, kBulk>::visit(rows, visit);
}

// Rows of a block that have a kernel with options.
constexpr bool rowsWithOptions(int rows) { return rows != 2 && rows != 16; }

// The main loop of all rows, or of as many as fit.
template <bool kBulk>
MainloopShape binaryShape(const LmHeadTopKArgs& args, const GpuInfo& gpu) {
  constexpr int kRows[] = {1, 2, 8, 16, 32};
  int choice = 0;
  const auto serves = [&](int rows) { return args.isPlain() || rowsWithOptions(rows); };
  while (choice < 4 && (kRows[choice] < args.rows || !serves(kRows[choice]))) ++choice;
  for (;; --choice) {
    if (!serves(kRows[choice])) continue;
    const MainloopShape shape = visitMainloop<kBulk>(
        args, kRows[choice], [&](auto* type) { return binaryShapeOf<std::remove_pointer_t<decltype(type)>>(args); });
    if (choice == 0 || shape.fits(gpu, args.wantsLogSumExp())) return shape;
  }
}

template <bool kBulk>
bool supportsBinary(const LmHeadTopKArgs& args, const GpuInfo& gpu, Path path) {
  // Long rows of hidden need the memory that bulk copies take for their stages.
  return args.format == HeadFormat::kBinary && (!kBulk || (path == Path::kBest && gpu.computeCapability >= 90)) &&
         binaryShape<kBulk>(args, gpu).fits(gpu, args.wantsLogSumExp());
}

HiddenForm formOf(const Plan& plan) { return plan.shape.rowsPerBlock <= 2 ? HiddenForm::kPlanes : HiddenForm::kBytes; }

size_t hiddenBytes(const Plan& plan) { return quantizedBytes(plan, formOf(plan)); }

cudaError_t prepare(const Plan& plan, const RowPool& pool, void* hidden, cudaStream_t stream) {
  return launchQuantize(plan, formOf(plan), pool, hidden, stream);
}

template <bool kBulk>
cudaError_t binarySweep(const Plan& plan, const SweepParams& sweep, const void* hidden, cudaStream_t stream) {
  return visitMainloop<kBulk>(plan.args, plan.shape.rowsPerBlock, [&](auto* type) {
    using Mainloop = std::remove_pointer_t<decltype(type)>;
    return launchSweep<rowsWithOptions(Mainloop::kRows), Mainloop>(plan, sweep,
                                                                   {static_cast<const unsigned char*>(hidden)}, stream);
  });
}

}  // namespace

const Variant kBinaryBulk{supportsBinary<true>, binaryShape<true>, hiddenBytes, prepare, binarySweep<true>};
const Variant kBinary{supportsBinary<false>, binaryShape<false>, hiddenBytes, prepare, binarySweep<false>};

}  // namespace lm_head
