// Launching a kernel before the one in front of it has ended, so that its start costs nothing (compute capability 9.0
// and later; elsewhere an ordinary launch). Such a kernel calls waitForPreviousKernel before it reads what others
// wrote; every kernel of a chain calls allowNextKernel early.
#pragma once

#include <cuda_runtime.h>

namespace lm_head {

__device__ inline void waitForPreviousKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void allowNextKernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Blocks of a launch, of which `cluster` neighbours in x form a cluster (compute capability 9.0 and later).
struct Grid {
  dim3 blocks;
  unsigned cluster;
  Grid(dim3 blocks, unsigned cluster = 1) : blocks(blocks), cluster(cluster) {}
};

template <class... Parameters>
cudaError_t launchDependent(int computeCapability, void (*kernel)(Parameters...), const Grid& grid, unsigned threads,
                            size_t sharedBytes, cudaStream_t stream, Parameters... arguments) {
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {grid.cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = sharedBytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = computeCapability < 90 ? 0 : grid.cluster == 1 ? 1 : 2;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace lm_head
