// Selection by radix: the k-th largest of distinct 64-bit keys, by a warp or by a whole block.
#pragma once

#include <cooperative_groups.h>

#include "../../kernels/core/order.h"

namespace lm_head {

namespace cg = cooperative_groups;
using Warp = cg::thread_block_tile<32>;

// Shared memory that one team needs.
struct SelectScratch {
  uint32_t bins[256];
  uint32_t differ[2];  // bits in which keys differ, upper and lower half
  uint32_t digit;      // of the k-th largest key, in this pass
  uint32_t remaining;  // rank of the k-th largest among the keys of that digit
  uint32_t members;    // keys of that digit
  int kept;
};

// The bits in which any of the keys differs from the first.
template <class Team, class KeyAt>
__device__ Key differingBits(const Team& team, KeyAt keyAt, Key first, int count, SelectScratch& scratch) {
  Key differ = 0;
  for (int i = team.thread_rank(); i < count; i += team.size()) differ |= keyAt(i) ^ first;
  const uint32_t upper = __reduce_or_sync(0xffffffffu, static_cast<uint32_t>(differ >> 32));
  const uint32_t lower = __reduce_or_sync(0xffffffffu, static_cast<uint32_t>(differ));
  if (team.thread_rank() < 2) scratch.differ[team.thread_rank()] = 0;
  team.sync();
  if (team.thread_rank() % 32 == 0) {
    atomicOr(&scratch.differ[0], upper);
    atomicOr(&scratch.differ[1], lower);
  }
  team.sync();
  return Key{scratch.differ[0]} << 32 | scratch.differ[1];
}

// The k-th largest of `count` keys given by keyAt(0 .. count-1). Needs 1 <= k <= count, and that no other key equals
// the k-th largest. Every thread of the team gets the result.
template <class Team, class KeyAt>
__device__ Key kthLargest(const Team& team, KeyAt keyAt, int count, int k, SelectScratch& scratch) {
  // Digits begin where keys begin to differ: candidates have many bits in common.
  const Key first = keyAt(0), differ = differingBits(team, keyAt, first, count, scratch);
  if (differ == 0) return first;
  int above = 64 - __clzll(static_cast<long long>(differ));  // bits below this are not yet known
  Key prefix = above == 64 ? 0 : first >> above << above;
  uint32_t remaining = k;
  while (above > 0) {
    const int shift = max(above - 8, 0);
    const Key mask = above == 64 ? 0 : ~Key{0} << above;
    for (int bin = team.thread_rank(); bin < 256; bin += team.size()) scratch.bins[bin] = 0;
    team.sync();
    for (int i = team.thread_rank(); i < count; i += team.size()) {
      const Key key = keyAt(i);
      if ((key & mask) == prefix) atomicAdd(&scratch.bins[(key & ~mask) >> shift], 1u);
    }
    team.sync();
    if (team.thread_rank() < 32) {
      // Lane l owns bins 255-8l down to 248-8l, so that an inclusive scan over lanes counts from the largest digit
      // down.
      const int lane = team.thread_rank();
      const int top = 255 - 8 * lane;
      uint32_t own = 0;
      for (int b = 0; b < 8; ++b) own += scratch.bins[top - b];
      uint32_t larger = own;
      for (int offset = 1; offset < 32; offset *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffu, larger, offset);
        if (lane >= offset) larger += other;
      }
      larger -= own;
      if (larger < remaining && remaining <= larger + own) {
        int b = 0;
        while (larger + scratch.bins[top - b] < remaining) larger += scratch.bins[top - b++];
        scratch.digit = top - b;
        scratch.remaining = remaining - larger;
        scratch.members = scratch.bins[top - b];
      }
    }
    team.sync();
    prefix |= Key{scratch.digit} << shift;
    remaining = scratch.remaining;
    const uint32_t members = scratch.members;
    team.sync();  // before the next pass overwrites what was just read
    // All keys of this digit are wanted: the smallest of them is the k-th largest, and any bound below it selects the
    // same.
    if (members == remaining) return prefix;
    above = shift;
  }
  return prefix;
}

// Functions of their own, for their code is long and stands in every kernel several times; but not for compute
// capability 9.0, where calls were measured to cost a small batch 2 % of its time, and would keep warpgroup products
// from overlapping.
#if __CUDA_ARCH__ == 900
#define LM_HEAD_LONG_FUNCTION __forceinline__
#else
#define LM_HEAD_LONG_FUNCTION __noinline__ inline
#endif

// The k-th largest of a list, by a warp.
__device__ LM_HEAD_LONG_FUNCTION Key kthOfList(const Key* list, int count, int k, SelectScratch& scratch) {
  const Warp warp = cg::tiled_partition<32>(cg::this_thread_block());
  return kthLargest(
      warp, [list](int i) { return list[i]; }, count, k, scratch);
}

// Keeps the keys of a list that reach `bound`, in place, by a warp; returns how many. Four loads at a time, for the
// list may be in global memory.
__device__ LM_HEAD_LONG_FUNCTION int keepReaching(Key* list, int count, Key bound) {
  constexpr int kLoads = 4;
  const int lane = threadIdx.x % 32;
  int kept = 0;
  for (int base = 0; base < count; base += kLoads * 32) {
    Key keys[kLoads];
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const int i = base + load * 32 + lane;
      keys[load] = i < count ? list[i] : kWorstKey;
    }
    __syncwarp();  // a slot is overwritten only after it was read
#pragma unroll
    for (int load = 0; load < kLoads; ++load) {
      const bool keep = keys[load] != kWorstKey && keys[load] >= bound;
      const unsigned lanes = __ballot_sync(0xffffffffu, keep);
      if (keep) list[kept + __popc(lanes & ((1u << lane) - 1))] = keys[load];
      kept += __popc(lanes);
    }
  }
  __syncwarp();
  return kept;
}

}  // namespace lm_head
