// The launch of a sweep, which every variant shares.
#pragma once

#include <type_traits>

#include "../common/cuda_check.h"
#include "plan.h"

namespace lm_head {

template <class Mainloop, class RestMainloop, Epilogue kEpilogue>
cudaError_t launchSweepWith(const Plan& plan, const SweepParams& params,
                            const typename Mainloop::Params& mainloopParams, cudaStream_t stream) {
  const auto kernel = sweepKernel<Mainloop, RestMainloop, kEpilogue>;
  // A thread does this once for each kernel and device.
  static thread_local int allowedOn = -1;
  if (allowedOn != plan.gpu.index) {
    RETURN_IF_ERROR(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(plan.gpu.sharedBytes)));
    allowedOn = plan.gpu.index;
  }
  return launchDependent(kernel, dim3(plan.blocks, plan.rowGroups), Mainloop::kThreads, plan.sweepSharedBytes(), stream,
                         params, mainloopParams);
}

// kWithOptions: whether this main loop has a kernel with options, too. They take long to compile, so not all have.
template <bool kWithOptions, class Mainloop, class RestMainloop = void>
cudaError_t launchSweep(const Plan& plan, const SweepParams& params, const typename Mainloop::Params& mainloopParams,
                        cudaStream_t stream) {
  if (params.args.isPlain()) {
    return launchSweepWith<Mainloop, RestMainloop, Epilogue::kPlain>(plan, params, mainloopParams, stream);
  }
  if constexpr (kWithOptions) {
    return launchSweepWith<Mainloop, RestMainloop, Epilogue::kWithOptions>(plan, params, mainloopParams, stream);
  } else {
    return cudaErrorNotSupported;  // never: the plan has chosen another
  }
}

// visit(std::integral_constant<int, n>()) for the first n of these that serves `rows`, or the last.
template <int kFirst, int... kMore, class Visit>
auto visitRows(int64_t rows, Visit visit) {
  if constexpr (sizeof...(kMore) > 0) {
    if (rows > kFirst) return visitRows<kMore...>(rows, visit);
  }
  return visit(std::integral_constant<int, kFirst>());
}

// The fewest rows of 1, 2, 4, ... `most` that serve all rows in one block, or as many as fit.
template <class Fits>
int chooseRows(int64_t rows, int least, int most, Fits fits) {
  int chosen = least;
  while (chosen < most && chosen < rows) chosen *= 2;
  while (chosen > least && !fits(chosen)) chosen /= 2;
  return chosen;
}

}  // namespace lm_head
