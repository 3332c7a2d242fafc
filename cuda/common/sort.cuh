// Sorting of 64-bit keys by a block.
#pragma once

#include "select.cuh"

namespace lm_head {

// Bitonic sort of `size` keys in shared memory, a power of two of at least 32, by a block. Steps within a warp need no
// barrier.
template <int kThreads>
__device__ inline void sortBestFirst(const cg::thread_block& block, Key* keys, int size) {
  const auto sortWithinWarps = [&](int firstRun, int lastRun) {
    for (int i = threadIdx.x; i < size; i += kThreads) {
      Key key = keys[i];
      for (int run = firstRun; run <= lastRun; run *= 2) {
        for (int stride = min(run / 2, 16); stride > 0; stride /= 2) {
          const Key other = __shfl_xor_sync(0xffffffffu, key, stride);
          const bool wantsLarger = ((i & run) == 0) == ((i & stride) == 0);
          if ((other > key) == wantsLarger) key = other;
        }
      }
      keys[i] = key;
    }
    block.sync();
  };
  sortWithinWarps(2, 32);
  for (int run = 64; run <= size; run *= 2) {
    for (int stride = run / 2; stride >= 32; stride /= 2) {
      for (int pair = threadIdx.x; pair < size / 2; pair += kThreads) {
        const int i = 2 * pair - (pair & (stride - 1)), j = i + stride;
        const bool descending = (i & run) == 0;
        const Key a = keys[i], b = keys[j];
        if ((a < b) == descending) {
          keys[i] = b;
          keys[j] = a;
        }
      }
      block.sync();
    }
    sortWithinWarps(run, run);
  }
}

}  // namespace lm_head
