// From sums to offered scores where a lane of a warp has two ids of 16 and every fourth row: as tensor-core products
// leave them.
#pragma once

#include "sweep.cuh"

namespace lm_head {

// The two ids of 16 that a lane of a warp scores. `bias` is to be loaded long before it is needed.
struct IdPair {
  uint32_t lower;
  bool scored[2];  // not those behind the vocabulary
  float bias[2];

  __device__ IdPair(const LmHeadTopKArgs& args, int64_t firstId) {
    const int64_t id = firstId + threadIdx.x % 32 / 4;
    lower = static_cast<uint32_t>(id);
    for (const int half : {0, 1}) {
      scored[half] = id + 8 * half < args.vocabSize;
      bias[half] = scored[half] ? biasOf(args.bias, id + 8 * half) : 0.0f;
    }
  }
};

// What turns a row's sums into scores, and whether it is scored here at all.
struct RowFinish {
  float scale;
  bool scored;
};

// Makes a lane's scores, two of row 4i + t in sums[i], by what finishOf(row) says and bias, and offers them; -inf where
// the row or the id is not scored.
template <int kPairs, class Lists, class FinishOf>
__device__ inline void offerPairs(Lists& lists, const IdPair& ids, float (&sums)[kPairs][2], FinishOf finishOf) {
  const int t = threadIdx.x % 4;
  uint32_t candidates = 0;
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const RowFinish finish = finishOf(4 * i + t);
    const float least = lists.leastScore(4 * i + t);
#pragma unroll
    for (const int half : {0, 1}) {
      const bool scored = finish.scored && ids.scored[half];
      const float score = finishScore(__fmul_rn(sums[i][half], finish.scale), ids.bias[half]);
      if (scored && !(score < least)) candidates |= 1u << (2 * i + half);
      sums[i][half] = scored ? score : -INFINITY;
    }
  }
  if (candidates == 0) return;
  // Seldom: once in the code, by way of an array that can be indexed, where each score for itself would be long.
  float scores[2 * kPairs];
#pragma unroll
  for (int i = 0; i < 2 * kPairs; ++i) scores[i] = sums[i / 2][i % 2];
  for (; candidates != 0; candidates &= candidates - 1) {
    const int i = __ffs(candidates) - 1;
    lists.offer(4 * (i / 2) + t, scores[i], ids.lower + 8 * (i % 2));
  }
}

}  // namespace lm_head
