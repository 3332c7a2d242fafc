// The CUDA stream that TensorFlow runs an op's GPU kernel on.
#pragma once

#include <cuda_runtime_api.h>

#include "tf_api.h"

namespace lm_head {

cudaStream_t streamOf(const OpContext& context);

inline void checkCuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw OpError(TF_INTERNAL, std::string(what) + ": " + cudaGetErrorString(error));
}

}  // namespace lm_head
