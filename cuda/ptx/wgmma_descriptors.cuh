// Instructions that only compute capability 9.0 has: bulk tensor copies, and matrix products of a warpgroup (128
// threads) on operands in shared memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "bulk_copy.cuh"

namespace lm_head {

// Copies the box of `map` at (column, row) to shared memory; what lies outside the tensor becomes zeros.
__device__ inline void copyTensorBox(void* shared, const CUtensorMap* map, int column, int row, uint64_t* barrier,
                                     uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, "
      "%4}], [%2], %5;" ::"r"(sharedAddress(shared)),
      "l"(map), "r"(sharedAddress(barrier)), "r"(column), "r"(row), "l"(policy)
      : "memory");
}

// A matrix of rows of 128 bytes in shared memory, 1024-byte aligned, swizzled by the copy engine (128-byte pattern).
__device__ inline uint64_t matrixDescriptor(const void* shared) {
  constexpr uint64_t kSwizzle128 = 1ull << 62, kEightRows = (1024ull >> 4) << 32, kUnused = 1ull << 16;
  return kSwizzle128 | kEightRows | kUnused | (sharedAddress(shared) & 0x3ffff) >> 4;
}

// The descriptor of a matrix that lies `bytes` further on, a multiple of 16: only the lower half changes.
__device__ inline uint64_t descriptorBehind(uint64_t descriptor, uint32_t bytes) {
  return (descriptor & ~0xffffffffull) | (static_cast<uint32_t>(descriptor) + bytes / 16);
}

__device__ inline void fenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void waitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

}  // namespace lm_head
