// Launching a kernel before the one in front of it has ended, so that its start costs nothing (compute capability 9.0
// and later; elsewhere an ordinary launch). Such a kernel calls waitForPreviousKernel before it reads what others
// wrote; every kernel of a chain calls triggerDependentLaunch early.
#pragma once

#include <cuda_runtime.h>

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

template <class... Parameters>
cudaError_t launchDependent(int computeCapability, void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                            size_t sharedBytes, cudaStream_t stream, Parameters... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = sharedBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = computeCapability >= 90 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace lm_head
