// Bulk copies from global to shared memory and the barriers they complete on (compute capability 9.0 and later): one
// thread copies kilobytes by one instruction. Elsewhere these functions must not be called.
#pragma once

#include <cstdint>

namespace lm_head {

__device__ inline uint32_t sharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ inline void initBarrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(arrivals) : "memory");
}

__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sharedAddress(barrier)) : "memory");
}

// Cache policies of bulk copies, as the hardware encodes them: read once, read as anything else, or read again soon.
constexpr uint64_t kEvictFirst = 0x12f0000000000000ull;
constexpr uint64_t kEvictNormal = 0x16f0000000000000ull;
constexpr uint64_t kEvictLast = 0x14f0000000000000ull;

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

// Makes initialized barriers visible to the copy engine.
__device__ inline void fenceBarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void arriveExpecting(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sharedAddress(barrier)), "r"(bytes)
               : "memory");
}

// Makes this thread's writes to shared memory visible to the copy engine and to warpgroup products.
__device__ inline void fenceSharedWrites() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Waits until the phase of this parity has ended.
__device__ inline void waitBarrier(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(sharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// Copies `bytes`, a multiple of 16; both addresses are multiples of 16.
__device__ inline void copyBulk(void* shared, const void* global, int bytes, uint64_t* barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(sharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(sharedAddress(barrier)), "l"(policy)
      : "memory");
}

#else

__device__ inline void fenceBarrierInit() { __trap(); }
__device__ inline void fenceSharedWrites() { __trap(); }
__device__ inline void arriveExpecting(uint64_t*, int) { __trap(); }
__device__ inline void waitBarrier(uint64_t*, uint32_t) { __trap(); }
__device__ inline void copyBulk(void*, const void*, int, uint64_t*, uint64_t) { __trap(); }

#endif

}  // namespace lm_head
