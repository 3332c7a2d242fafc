// How many ids come before given ones, the targets of a row, which are sorted. An id is counted once, for the best
// target that it comes before; what stands behind that one counts it, too.
#pragma once

#include "../../../kernels/core/order.h"
#include "../../common/lane.cuh"

namespace lm_head {

struct RankTargets {
  const Key* keys;   // [rows, count], best first, of ids as they are returned; or null
  int32_t* buckets;  // [rows, count]: ids that come before this target, but before none that is better
  int count;
};

// A thread counts an id of `row` that comes before the last target.
__device__ inline void countBefore(const RankTargets& targets, int64_t row, Key key) {
  const Key* keys = targets.keys + row * targets.count;
  int low = 0, high = targets.count - 1;  // the first target that is worse is among these
  while (low < high) {
    const int middle = (low + high) / 2;
    if (keys[middle] < key) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  atomicAdd(targets.buckets + row * targets.count + low, 1);
}

}  // namespace lm_head
