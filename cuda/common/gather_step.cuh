// What a kernel is told about the gather that ran in front of it on its stream.
#pragma once

#include "gather_step.h"

namespace lm_head {

// Whether the gathered data may be used; every thread of the block calls it, behind waitForPreviousKernel. Without a
// gather it costs nothing.
__device__ inline bool isGathered(const GatherStep& step) {
  if (step.failed == nullptr) return true;
  __shared__ int failed;
  if (threadIdx.x == 0) {
    failed = *static_cast<const volatile int*>(step.failed);
    // Told only what was seen: from here on, a rank that ends cannot make this step fail.
    if (failed == 0 && blockIdx.x == 0) *static_cast<volatile int64_t*>(step.done) = step.number;
  }
  __syncthreads();
  return failed == 0;
}

}  // namespace lm_head
