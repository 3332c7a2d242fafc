// The sweep over the vocabulary that every head format shares: blocks walk over tiles of ids, a Scorer makes the scores of a
// tile, and the block's top-k lists filter them.
#pragma once

#include "common/top_k_lists.cuh"
#include "lm_head_topk_args.h"

namespace lm_head {

// What one launch of the sweep is given, beside what its Scorer needs.
struct ScanParams {
  LmHeadTopKArgs args;
  int k;               // results of this sweep, at most kMaxKPerSweep
  int rowsPerBlock;    // blockIdx.y serves rows from blockIdx.y * rowsPerBlock on
  int listCapacity;    // keys that a list has room for
  bool listsInShared;  // else they are built in `partial` itself
  Key* partial;        // [rows, gridDim.x, partialStride]: the k best of each block, filled up with kWorstKey
  int partialStride;
  const Key* bounds;  // [rows]: only keys below are wanted; null in the first sweep
};

// The last step of every score.
__device__ inline float finishScore(float score, const float* bias, int64_t id) {
  return bias == nullptr ? score : __fadd_rn(score, bias[id]);
}

// Shared memory of a scan block, in this order: scorer, lists (if shared), thresholds, select scratch, counts.
__host__ __device__ inline size_t listBytes(const ScanParams& params, int warps) {
  const size_t rows = params.rowsPerBlock;
  const size_t lists = params.listsInShared ? rows * params.listCapacity * sizeof(Key) : 0;
  return lists + rows * (sizeof(Key) + sizeof(int)) + warps * sizeof(SelectScratch);
}

// A barrier of the first kWorkers threads of the block.
template <int kWorkers>
__device__ inline void syncWorkers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kWorkers) : "memory");
}

// A Scorer has: `Params`; kThreads, of which the first kWorkers score, and kTileVocab; `sharedBytes()`, a multiple of 16; a
// constructor that all threads run, with the shared memory and the block's rows; `bool hasWork()`, the same in all threads;
// `assist()`, all that the threads behind the workers do; `startWork()`, what workers do first; and `scoreTile(tile, lists)`, which all workers call and which
// offers the scores of the ids of `tile` for each row that it `serves`.
template <class Scorer>
__global__ void __launch_bounds__(Scorer::kThreads, 1)
    scanKernel(const __grid_constant__ ScanParams params, const __grid_constant__ typename Scorer::Params scorerParams) {
  extern __shared__ __align__(1024) unsigned char shared[];
  constexpr int kWorkers = Scorer::kWorkers, kTileVocab = Scorer::kTileVocab;
  const int64_t rowBegin = static_cast<int64_t>(blockIdx.y) * params.rowsPerBlock;
  const int rows = static_cast<int>(min(static_cast<int64_t>(params.rowsPerBlock), params.args.rows - rowBegin));
  const int64_t tiles = (params.args.vocabSize + kTileVocab - 1) / kTileVocab;

  Scorer scorer(params, scorerParams, shared, rowBegin, rows);
  if (!scorer.hasWork()) return;
  // Read from one lane, so that the compiler knows that whole warps take a branch: warpgroup products need that.
  if (__shfl_sync(0xffffffffu, threadIdx.x / 32, 0) >= kWorkers / 32) {
    scorer.assist();
    return;
  }
  scorer.startWork();

  Key* next = reinterpret_cast<Key*>(shared + scorer.sharedBytes());
  const int64_t partialRowStride = static_cast<int64_t>(gridDim.x) * params.partialStride;
  Key* partial = params.partial + rowBegin * partialRowStride + static_cast<int64_t>(blockIdx.x) * params.partialStride;
  TopKLists<kWorkers> lists;
  lists.keys = params.listsInShared ? next : partial;
  lists.rowStride = params.listsInShared ? params.listCapacity : partialRowStride;
  if (params.listsInShared) next += params.rowsPerBlock * params.listCapacity;
  lists.k = params.k;
  lists.rows = rows;
  lists.thresholds = next;
  auto* selectScratch = reinterpret_cast<SelectScratch*>(next + params.rowsPerBlock);
  lists.counts = reinterpret_cast<int*>(selectScratch + kWorkers / 32);
  lists.bounds = params.bounds == nullptr ? nullptr : params.bounds + rowBegin;
  lists.reset();
  syncWorkers<kWorkers>();

  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    scorer.scoreTile(tile, lists);
    syncWorkers<kWorkers>();
    lists.cutBack(params.listCapacity - kTileVocab, selectScratch);
    syncWorkers<kWorkers>();
  }
  lists.cutBack(params.k, selectScratch);
  syncWorkers<kWorkers>();

  for (int row = 0; row < rows; ++row) {
    if (!scorer.serves(row)) continue;
    for (int i = threadIdx.x; i < params.k; i += kWorkers) {
      Key* out = partial + row * partialRowStride + i;
      if (i >= lists.counts[row]) {
        *out = kWorstKey;
      } else if (params.listsInShared) {
        *out = lists.keys[row * lists.rowStride + i];
      }
    }
  }
}

}  // namespace lm_head
