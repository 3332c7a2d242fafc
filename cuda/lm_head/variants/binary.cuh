// What the variants of binary heads share: quantized hidden in scratch memory, and the prologue that makes it.
#pragma once

#include "../launch_sweep.cuh"
#include "../mainloops/binary.cuh"

namespace lm_head {

inline BinaryLayout layoutOf(const LmHeadTopKArgs& args) { return {args.hiddenSize, args.groupSize}; }

template <class Mainloop>
MainloopShape binaryShapeOf(const LmHeadTopKArgs& args) {
  return MainloopShape::of<Mainloop>(Mainloop::kRows, Mainloop::sharedBytes(layoutOf(args)));
}

// Quantizes hidden, in the form that the main loop takes, and empties the pool. quantize_hidden.cu
cudaError_t launchQuantize(const Plan& plan, HiddenForm form, const RowPool& pool, void* hidden, cudaStream_t stream);

inline size_t quantizedBytes(const Plan& plan, HiddenForm form) {
  return static_cast<size_t>(plan.rowGroups) * BinaryHidden(plan.shape.rowsPerBlock, layoutOf(plan.args), form).bytes();
}

}  // namespace lm_head
