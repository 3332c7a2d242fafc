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

// visitAll(visit) visits 32-bit numbers, fewer than 2^16, over a warp; 0 stands for none. A bound that at least
// `wanted` of them reach, of which there are so many, and at most `most` where numbers are not equal; `reaching`: how
// many do. The bits of the wanted-th largest number are found from the first in which numbers differ on down, two at a
// time, until few enough reach what is known.
template <class VisitAll>
__device__ inline uint32_t boundOfNumbers(VisitAll visitAll, int wanted, int most, int* reaching) {
  uint32_t largest = 0, smallest = ~0u;
  int numbers = 0;
  visitAll([&](uint32_t number) {
    largest = max(largest, number);
    smallest = min(smallest, number - 1);  // none becomes the largest
    numbers += number != 0;
  });
  largest = __reduce_max_sync(0xffffffffu, largest);
  smallest = __reduce_min_sync(0xffffffffu, smallest) + 1;
  *reaching = __reduce_add_sync(0xffffffffu, numbers);
  const uint32_t differ = largest ^ smallest;
  if (differ == 0 || *reaching <= most) return smallest;
  int bit = (31 - __clz(static_cast<int>(differ))) | 1;  // of a pair the upper one
  uint32_t found = bit == 31 ? 0 : largest >> bit >> 1 << bit << 1;
#pragma unroll 1
  for (; bit > 0; bit -= 2) {
    const uint32_t step = 1u << (bit - 1);
    uint32_t lower = 0, upper = 0;  // counts of one and of two or three steps
    visitAll([&](uint32_t number) {
      lower += number >= found + step;
      upper += number >= found + 2 * step ? 1u : 0u;
      upper += number >= found + 3 * step ? 1u << 16 : 0u;
    });
    lower = __reduce_add_sync(0xffffffffu, lower);
    upper = __reduce_add_sync(0xffffffffu, upper);
    const int counts[] = {static_cast<int>(lower), static_cast<int>(upper & 0xffff), static_cast<int>(upper >> 16)};
    const int steps = (counts[0] >= wanted) + (counts[1] >= wanted) + (counts[2] >= wanted);
    if (steps == 0) continue;
    found += steps * step;
    *reaching = counts[steps - 1];
    if (*reaching <= most) break;
  }
  return found;
}

// Keys: HeldKeys, or what has such a forEach. One of the keys, which at least `wanted` of them reach and at most `most`:
// by scores, and where these are equal by ids.
template <class Keys>
__device__ inline Key boundOfBest(const Keys& keys, int wanted, int most) {
  if (wanted == 1) {
    Key largest = kWorstKey;
    keys.forEach([&](Key key) { largest = key > largest ? key : largest; });
    return largestOfWarp(largest);
  }
  int reaching = 0;
  const uint32_t score = boundOfNumbers(
      [&](auto visit) { keys.forEach([&](Key key) { visit(static_cast<uint32_t>(key >> 32)); }); }, wanted, most,
      &reaching);
  Key bound = Key{score} << 32;
  if (reaching > most) {
    const int better = countReaching(keys, bound + (Key{1} << 32));
    int equal = 0;
    // Ids use 31 bits, so that there is room for 0.
    bound += boundOfNumbers(
                 [&](auto visit) {
                   keys.forEach([&](Key key) { visit(key >> 32 == score ? static_cast<uint32_t>(key) + 1 : 0u); });
                 },
                 wanted - better, most - better, &equal) -
             1;
  }
  Key smallest = kAboveAllKeys;
  keys.forEach([&](Key key) { smallest = key >= bound && key < smallest ? key : smallest; });
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
