// Which rows a block serves.
#pragma once

#include <cstdint>

namespace lm_head {

// The rows of a block.
struct BlockRows {
  int64_t begin;
  int count, most;

  // Made anew where it is needed, and so that the compiler does not keep it in registers while products need them.
  static __device__ BlockRows of(int rowsPerBlock, int64_t allRows) {
    unsigned group;
    asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(group));
    const int64_t begin = static_cast<int64_t>(group) * rowsPerBlock;
    return {begin, static_cast<int>(min(static_cast<int64_t>(rowsPerBlock), allRows - begin)), rowsPerBlock};
  }
};

}  // namespace lm_head
