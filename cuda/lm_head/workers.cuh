// Barriers among the threads of a block that score, while others copy.
#pragma once

namespace lm_head {

// A barrier of the first kWorkers threads of the block.
template <int kWorkers>
__device__ inline void syncWorkers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kWorkers) : "memory");
}

// The same, and whether any of them says so.
template <int kWorkers>
__device__ inline bool anyOfWorkers(bool mine) {
  int any;
  asm volatile(
      "{\n"
      ".reg .pred mine, any;\n"
      "setp.ne.s32 mine, %1, 0;\n"
      "bar.red.or.pred any, 1, %2, mine;\n"
      "selp.s32 %0, 1, 0, any;\n"
      "}\n"
      : "=r"(any)
      : "r"(static_cast<int>(mine)), "n"(kWorkers)
      : "memory");
  return any != 0;
}

}  // namespace lm_head
