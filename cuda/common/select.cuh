// Selection among distinct 64-bit keys: by a warp, of which each step counts, and by a whole block, by radix.
#pragma once

#include <cooperative_groups.h>

#include "../../kernels/core/order.h"
#include "lane.cuh"

namespace lm_head {

namespace cg = cooperative_groups;

// --- by a warp ---

__device__ inline Key largestOfWarp(Key key) {
  const auto upper = static_cast<uint32_t>(key >> 32);
  const uint32_t largest = __reduce_max_sync(0xffffffffu, upper);
  return Key{largest} << 32 | __reduce_max_sync(0xffffffffu, upper == largest ? static_cast<uint32_t>(key) : 0u);
}

__device__ inline Key smallestOfWarp(Key key) { return ~largestOfWarp(~key); }

// The keys of a list that may be in global memory, which a warp looks at several times: the first of them are in its
// lanes' registers, the others are read again each time.
class HeldKeys {
 public:
  __device__ HeldKeys(const Key* list, int count) : list_(list), count_(count) {
    const int lane = laneOfWarp();
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) held_[i] = at(i * 32 + lane);
  }

  // visit(key), and with kWorstKey where a lane has none.
  template <class Visit>
  __device__ void forEach(Visit visit) const {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) visit(held_[i]);
#pragma unroll 1
    for (int base = 32 * kOfLane; base < count_; base += 2 * 32) {
      const int i = base + laneOfWarp();
      const Key keys[] = {at(i), at(i + 32)};
      visit(keys[0]);
      visit(keys[1]);
    }
  }

 private:
  static constexpr int kOfLane = 8;

  __device__ Key at(int i) const { return i < count_ ? list_[i] : kWorstKey; }

  const Key* list_;
  int count_;
  Key held_[kOfLane];
};

// How many keys reach `bound`, which is above kWorstKey.
template <class Keys>
__device__ inline int countReaching(const Keys& keys, Key bound) {
  int count = 0;
  keys.forEach([&](Key key) { count += key >= bound; });
  return __reduce_add_sync(0xffffffffu, count);
}

// How much more than what is wanted a bound may let through: looking for the last bits takes as long as for the first.
__host__ __device__ inline int withSlack(int wanted) { return wanted == 1 ? 1 : wanted + wanted / 8 + 2; }

// Keys: HeldKeys, or what has such a forEach, fewer than 2^16. The smallest of so many best keys, of at least `wanted`
// and at most `most`. What is searched is the wanted-th largest of the keys' upper halves, four ways at a time, until
// few enough reach what is known, and where they do not tell, of the lower halves of those that share it.
template <class Keys>
__device__ __forceinline__ Key boundOfBest(const Keys& keys, int wanted, int most) {
  if (wanted == 1) {
    Key largest = kWorstKey;
    keys.forEach([&](Key key) { largest = max(largest, key); });
    return largestOfWarp(largest);
  }
  uint32_t shared = 0;  // the upper half, once the lower ones are searched
  // 0 where there is none; ids have 31 bits, so there is always one more.
  const auto wordOf = [&](Key key) {
    const auto upper = static_cast<uint32_t>(key >> 32), lower = static_cast<uint32_t>(key) + 1;
    return shared == 0 ? upper : upper == shared ? lower : 0u;
  };
  Key bound;
#pragma unroll 1
  for (;;) {
    uint32_t least = ~0u, largest = 0;  // the word is among these
    int reached = 0, above = 0;         // words that reach the least; words above the largest
    keys.forEach([&](Key key) {
      const uint32_t word = wordOf(key);
      largest = max(largest, word);
      least = min(least, word - 1);
      reached += word != 0;
    });
    least = __reduce_min_sync(0xffffffffu, least) + 1;
    largest = __reduce_max_sync(0xffffffffu, largest);
    reached = __reduce_add_sync(0xffffffffu, reached);
#pragma unroll 1
    while (reached > most && least < largest) {
      const uint32_t step = (largest - least) / 4 + 1;
      const uint32_t first = least + min(step, largest - least), second = first + min(step, largest - first),
                     third = second + min(step, largest - second);
      uint32_t lower = 0, upper = 0;
      keys.forEach([&](Key key) {
        const uint32_t word = wordOf(key);
        lower += word >= first;
        upper += (word >= second) + (static_cast<uint32_t>(word >= third) << 16);
      });
      lower = __reduce_add_sync(0xffffffffu, lower);
      upper = __reduce_add_sync(0xffffffffu, upper);
      const int counts[] = {static_cast<int>(lower), static_cast<int>(upper & 0xffff), static_cast<int>(upper >> 16)};
      if (counts[2] >= wanted) {
        least = third, reached = counts[2];
      } else if (counts[1] >= wanted) {
        least = second, reached = counts[1], largest = third - 1, above = counts[2];
      } else if (counts[0] >= wanted) {
        least = first, reached = counts[0], largest = second - 1, above = counts[1];
      } else {
        largest = first - 1, above = counts[0];
      }
    }
    bound = shared == 0 ? Key{least} << 32 : Key{shared} << 32 | (least - 1);
    if (reached <= most || shared != 0) break;
    shared = least;
    wanted -= above;
    most -= above;
  }
  Key smallest = kAboveAllKeys;
  keys.forEach([&](Key key) {
    if (key >= bound && key < smallest) smallest = key;
  });
  return smallestOfWarp(smallest);
}

// --- by a block ---

// Shared memory that a block needs.
struct SelectScratch {
  uint32_t bins[256];
  uint32_t differ[2];  // bits in which keys differ, upper and lower half
  uint32_t digit;      // of the k-th largest key, in this pass
  uint32_t remaining;  // rank of the k-th largest among the keys of that digit
  uint32_t members;    // keys of that digit
  int kept;
};

// All threads of a block: visit(key) for each of the keys keyAt(0 .. count-1). Several are loaded at once, for they may
// come from afar.
template <class KeyAt, class Visit>
__device__ inline void forEachKey(const cg::thread_block& block, KeyAt keyAt, int count, Visit visit) {
  constexpr int kAtOnce = 8;
  const int threads = block.size();
  int i = block.thread_rank();
  for (; i + (kAtOnce - 1) * threads < count; i += kAtOnce * threads) {
    Key keys[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) keys[j] = keyAt(i + j * threads);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) visit(keys[j]);
  }
  for (; i < count; i += threads) visit(keyAt(i));
}

// The bits in which any of the keys differs from the first.
template <class KeyAt>
__device__ Key differingBits(const cg::thread_block& block, KeyAt keyAt, Key first, int count, SelectScratch& scratch) {
  Key differ = 0;
  forEachKey(block, keyAt, count, [&](Key key) { differ |= key ^ first; });
  const uint32_t upper = __reduce_or_sync(0xffffffffu, static_cast<uint32_t>(differ >> 32));
  const uint32_t lower = __reduce_or_sync(0xffffffffu, static_cast<uint32_t>(differ));
  if (block.thread_rank() < 2) scratch.differ[block.thread_rank()] = 0;
  block.sync();
  if (block.thread_rank() % 32 == 0) {
    atomicOr(&scratch.differ[0], upper);
    atomicOr(&scratch.differ[1], lower);
  }
  block.sync();
  return Key{scratch.differ[0]} << 32 | scratch.differ[1];
}

// A bound that exactly the k largest of `count` keys keyAt(0 .. count-1) reach. Needs 1 <= k <= count. Every thread of
// the block gets it. Radix selection (Alabi et al. 2012, "Fast k-selection algorithms for graphics processing units"),
// 8 bits a pass.
template <class KeyAt>
__device__ Key boundOfLargest(const cg::thread_block& block, KeyAt keyAt, int count, int k, SelectScratch& scratch) {
  // Digits begin where keys begin to differ: candidates have many bits in common.
  const Key first = keyAt(0), differ = differingBits(block, keyAt, first, count, scratch);
  if (differ == 0) return first;
  int above = 64 - __clzll(static_cast<long long>(differ));  // bits below this are not yet known
  Key prefix = above == 64 ? 0 : first >> above << above;
  uint32_t remaining = k;
  while (above > 0) {
    const int shift = max(above - 8, 0);
    const Key mask = above == 64 ? 0 : ~Key{0} << above;
    for (int bin = block.thread_rank(); bin < 256; bin += block.size()) scratch.bins[bin] = 0;
    block.sync();
    forEachKey(block, keyAt, count, [&](Key key) {
      if ((key & mask) == prefix) atomicAdd(&scratch.bins[(key & ~mask) >> shift], 1u);
    });
    block.sync();
    if (block.thread_rank() < 32) {
      // Lane l owns bins 255-8l down to 248-8l, so that an inclusive scan over lanes counts from the largest digit
      // down.
      const int lane = block.thread_rank();
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
    block.sync();
    prefix |= Key{scratch.digit} << shift;
    remaining = scratch.remaining;
    const uint32_t members = scratch.members;
    block.sync();  // before the next pass overwrites what was just read
    // All keys of this digit are wanted.
    if (members == remaining) return prefix;
    above = shift;
  }
  return prefix;
}

}  // namespace lm_head
