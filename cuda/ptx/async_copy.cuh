// 16-byte asynchronous copies from global to shared memory (compute capability 8.0 and later).
#pragma once

#include <cstdint>

namespace lm_head {

// Copies 16 bytes past the L1 cache, or writes zeros where `valid` is false (the source is then not read).
__device__ inline void copyAsync16(void* shared, const void* global, bool valid = true) {
  const auto destination = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(global), "r"(bytes)
               : "memory");
}

__device__ inline void commitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `kPending` of the committed groups are still on their way.
template <int kPending>
__device__ inline void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace lm_head
