// Binary heads against many rows on compute capability 9.0. Compiled for sm_90a alone: no other target has these
// instructions.
#include "../mainloops/binary_wgmma.cuh"
#include "binary.cuh"
#include "table.h"

namespace lm_head {
namespace {

MainloopShape binaryShape(const LmHeadTopKArgs& args, const GpuInfo&) {
  return binaryShapeOf<BinaryWgmmaMainloop>(args);
}

bool supportsBinary(const LmHeadTopKArgs& args, const GpuInfo& gpu, Path path) {
  return args.format == HeadFormat::kBinary && path == Path::kBest && gpu.computeCapability == 90 &&
         args.groupSize == 128 && args.rows > 16 && binaryShape(args, gpu).fits(gpu, args.wantsLogSumExp());
}

size_t hiddenBytes(const Plan& plan) { return quantizedBytes(plan, HiddenForm::kSwizzledBytes); }

cudaError_t prepare(const Plan& plan, const RowPool& pool, void* hidden, cudaStream_t stream) {
  return launchQuantize(plan, HiddenForm::kSwizzledBytes, pool, hidden, stream);
}

cudaError_t binarySweep(const Plan& plan, const SweepParams& sweep, const void* hidden, cudaStream_t stream) {
  return launchSweep<true, BinaryWgmmaMainloop>(plan, sweep, {static_cast<const unsigned char*>(hidden)}, stream);
}

}  // namespace

const Variant kBinarySm90{supportsBinary, binaryShape, hiddenBytes, prepare, binarySweep};

}  // namespace lm_head
