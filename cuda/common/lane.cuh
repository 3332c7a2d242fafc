// Where a thread stands in its block. Read anew at each use: what follows from it would else be kept in registers from
// the start of a kernel to its end, which many rows' sums have better use for.
#pragma once

namespace lm_head {

__device__ inline unsigned threadOfBlock() {
  unsigned thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}

__device__ inline unsigned laneOfWarp() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

__device__ inline unsigned warpOfBlock() { return threadOfBlock() / 32; }

}  // namespace lm_head
