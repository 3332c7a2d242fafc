#include "../variants/binary.cuh"
#include "quantize_hidden.cuh"

namespace lm_head {

cudaError_t launchQuantize(const Plan& plan, HiddenForm form, const RowPool& pool, void* hidden, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.args;
  const BinaryHidden shape(plan.shape.rowsPerBlock, layoutOf(args), form);
  const QuantizeParams params{
      args, form, shape, static_cast<int>(args.groupSize / 32), static_cast<unsigned char*>(hidden), pool};
  // A warp a block of columns, where no groups go across parts.
  constexpr int kThreads = 512, kWarps = kThreads / 32;
  const bool parts = kWarps * 128 % args.groupSize == 0;
  const dim3 grid(static_cast<unsigned>(parts ? (shape.blocks + kWarps - 1) / kWarps : 1),
                  static_cast<unsigned>(plan.rowGroups) * shape.rows);
  quantizeHiddenKernel<kThreads><<<grid, kThreads, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace lm_head
