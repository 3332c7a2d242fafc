// Launchers return the first error to their caller.
#pragma once

#include <cuda_runtime_api.h>

#define RETURN_IF_ERROR(call)                   \
  do {                                          \
    const cudaError_t status_ = (call);         \
    if (status_ != cudaSuccess) return status_; \
  } while (0)
