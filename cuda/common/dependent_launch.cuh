// Launching a kernel before the one in front of it has ended, so that its start costs nothing (compute capability 9.0
// and later; elsewhere an ordinary launch). Such a kernel calls waitForPreviousKernel before it reads what others
// wrote; every kernel of a chain calls triggerDependentLaunch early.
#pragma once

#include <cuda_runtime.h>

#include "cuda_check.h"

namespace lm_head {

__device__ inline void waitForPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void triggerDependentLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Whether a kernel waits, as those do that are compiled for 9.0 or later; a GPU of that kind also runs others, which
// the driver has made from older PTX. Asking takes long beside a launch: a thread remembers its last kernel of each
// type.
template <class... Parameters>
cudaError_t waitsForPreviousKernel(void (*kernel)(Parameters...), bool* waits) {
  static thread_local void (*known)(Parameters...) = nullptr;
  static thread_local int knownDevice = -1;
  static thread_local bool knownWaits = false;
  int device = 0;
  RETURN_IF_ERROR(cudaGetDevice(&device));
  if (known != kernel || knownDevice != device) {
    cudaFuncAttributes attributes;
    RETURN_IF_ERROR(cudaFuncGetAttributes(&attributes, kernel));
    known = kernel, knownDevice = device, knownWaits = attributes.ptxVersion >= 90;
  }
  *waits = knownWaits;
  return cudaSuccess;
}

template <class... Parameters>
cudaError_t launchDependent(void (*kernel)(Parameters...), dim3 grid, unsigned threads, size_t sharedBytes,
                            cudaStream_t stream, Parameters... arguments) {
  bool waits = false;
  RETURN_IF_ERROR(waitsForPreviousKernel(kernel, &waits));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = sharedBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = waits ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace lm_head
