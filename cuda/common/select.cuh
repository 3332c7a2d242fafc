// Selection among distinct 64-bit keys: by a warp, a bit of the key at a time, and by a whole block, by radix.
#pragma once

#include <cooperative_groups.h>

#include "../../kernels/core/order.h"

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
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) held_[i] = at(i * 32);
  }

  // visit(key), and with kWorstKey where a lane has none.
  template <class Visit>
  __device__ void forEach(Visit visit) const {
#pragma unroll
    for (const Key key : held_) visit(key);
#pragma unroll 1
    for (int base = 32 * kOfLane; base < count_; base += 2 * 32) {
      const Key keys[] = {at(base), at(base + 32)};
      visit(keys[0]);
      visit(keys[1]);
    }
  }

 private:
  static constexpr int kOfLane = 8;

  __device__ Key at(int base) const {
    const int i = base + threadIdx.x % 32;
    return i < count_ ? list_[i] : kWorstKey;
  }

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

// Keys: HeldKeys, or what has such a forEach, fewer than 2^16. A bound that at least `wanted` keys reach, of which
// there are so many, and at most `most`. The bits of the wanted-th largest key are found from the first in which keys
// differ on down, two at a time, until few enough reach what is known.
template <class Keys>
__device__ __forceinline__ Key boundOfBest(const Keys& keys, int wanted, int most) {
  Key largest = kWorstKey, smallest = kAboveAllKeys;
  int all = 0;
  keys.forEach([&](Key key) {
    if (key > largest) largest = key;
    if (key != kWorstKey && key < smallest) smallest = key;
    all += key != kWorstKey;
  });
  largest = largestOfWarp(largest);
  if (wanted == 1) return largest;
  smallest = smallestOfWarp(smallest);
  if (__reduce_add_sync(0xffffffffu, all) <= most) return smallest;
  const Key differ = largest ^ smallest;
  int bit = (63 - __clzll(static_cast<long long>(differ))) | 1;  // of a pair the upper one
  Key found = bit == 63 ? 0 : largest >> bit >> 1 << bit << 1;
#pragma unroll 1
  for (; bit > 0; bit -= 2) {
    const Key step = Key{1} << (bit - 1);
    uint32_t lower = 0, upper = 0;  // counts of one and of two or three steps
    keys.forEach([&](Key key) {
      lower += key >= found + step;
      upper += (key >= found + 2 * step) + (static_cast<uint32_t>(key >= found + 3 * step) << 16);
    });
    lower = __reduce_add_sync(0xffffffffu, lower);
    upper = __reduce_add_sync(0xffffffffu, upper);
    const int counts[] = {static_cast<int>(lower), static_cast<int>(upper & 0xffff), static_cast<int>(upper >> 16)};
    const int steps = (counts[0] >= wanted) + (counts[1] >= wanted) + (counts[2] >= wanted);
    if (steps == 0) continue;
    found += steps * step;
    if ((steps == 1 ? counts[0] : steps == 2 ? counts[1] : counts[2]) <= most) break;
  }
  return found;
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

// The bits in which any of the keys differs from the first.
template <class KeyAt>
__device__ Key differingBits(const cg::thread_block& block, KeyAt keyAt, Key first, int count, SelectScratch& scratch) {
  Key differ = 0;
  for (int i = block.thread_rank(); i < count; i += block.size()) differ |= keyAt(i) ^ first;
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
    for (int i = block.thread_rank(); i < count; i += block.size()) {
      const Key key = keyAt(i);
      if ((key & mask) == prefix) atomicAdd(&scratch.bins[(key & ~mask) >> shift], 1u);
    }
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
