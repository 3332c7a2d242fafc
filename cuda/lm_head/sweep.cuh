// The sweep over the vocabulary that every head format shares: blocks walk over tiles of ids, a Scorer makes the scores
// of a tile, and the block's top-k lists filter them.
#pragma once

#include <algorithm>
#include <type_traits>

#include "../common/dependent_launch.cuh"
#include "reductions/log_sum_exp.cuh"
#include "reductions/top_k.cuh"
#include "../../kernels/core/lm_head_topk_args.h"

namespace lm_head {

// Ids [firstId, firstId + size), scored together.
struct Tile {
  int64_t firstId;
  int size;
};

// How the vocabulary is cut into tiles, which blocks take in turn: neighbouring ids, which often win together, so go to
// many blocks. Behind the full rounds each block gets one smaller tile, a multiple of `granularity`. Where a scorer
// shares tiles, the last full round and the small tiles go to the blocks that come first: memory does not serve all
// multiprocessors alike.
struct Tiling {
  int64_t vocabSize = 0;
  int64_t fullTiles = 0;
  int64_t tiles = 0;
  int64_t firstShared = 0;  // tiles from here on are shared
  int fullSize = 0;
  int smallSize = 0;
  int mostShared = 0;  // that a block takes; never more than LogSums has parts for

  Tiling() = default;

  // On the host, for 64-bit divisions take long on the device.
  Tiling(int64_t vocabSize, int64_t blocks, int fullSize, int granularity, bool shares)
      : vocabSize(vocabSize), fullSize(fullSize) {
    fullTiles = vocabSize / fullSize / blocks * blocks;
    const int64_t rest = vocabSize - fullTiles * fullSize, piece = blocks * granularity;
    smallSize = static_cast<int>((rest + piece - 1) / piece) * granularity;
    if (smallSize == 0) smallSize = granularity;
    tiles = fullTiles + (rest + smallSize - 1) / smallSize;
    // The first tile of a block is always its own.
    firstShared = shares && fullTiles > 0 ? std::max(fullTiles - blocks, blocks) : tiles;
    // One more than equal shares would be. There are at most two tiles a block to be shared.
    if (firstShared < tiles) mostShared = static_cast<int>((tiles - firstShared + blocks - 1) / blocks) + 1;
  }

  int64_t sharedTiles() const { return tiles - firstShared; }

  __device__ Tile at(int64_t index) const {
    if (index < fullTiles) return {index * fullSize, fullSize};
    return {fullTiles * fullSize + (index - fullTiles) * smallSize, smallSize};
  }
};

// What one launch of the sweep is given, beside what its Scorer needs.
struct ScanParams {
  LmHeadTopKArgs args;
  Tiling tiling;
  int k;              // results of this sweep, at most kMaxKPerSweep
  int rowsPerBlock;   // blockIdx.y serves rows from blockIdx.y * rowsPerBlock on
  int listCapacity;   // keys that a list has room for
  int tilesPerCheck;  // after so many tiles, lists are looked at whether they have
  int roomPerCheck;   // room for so many keys more
  Key* lists;         // [rows, gridDim.x, listCapacity], or null: lists are in shared memory
  const Key* bounds;  // [rows]: only keys below are wanted; null in the first sweep
  RowPool pool;
  LogSum* logSums;  // [rows, logSumsOfRow]: of each block, then of each shared tile; or null
  int logSumsOfRow;
  int logSumParts;  // of a block: one, or as many as LogSums has where tiles are shared
  // Serve only rows whose candidates were lost in the sweep before, a block a row group; lists hold k and two tiles.
  bool again;
};

__device__ inline bool isLost(const ScanParams& params, int64_t row) {
  return params.pool.counts[row] > params.pool.capacity;
}

// The bias of an id, to be loaded early; where there is none, what changes no score when it is added.
__device__ inline float biasOf(const float* bias, int64_t id) { return bias == nullptr ? -0.0f : bias[id]; }

// The last step of every score.
__device__ inline float finishScore(float score, float bias) { return __fadd_rn(score, bias); }
__device__ inline float finishScore(float score, const float* bias, int64_t id) {
  return finishScore(score, biasOf(bias, id));
}

// Shared memory of a scan block behind its scorer's: lists of `sharedKeys`, what else they need, and sums.
__host__ __device__ inline size_t listBytes(const ScanParams& params, int warps, int sharedKeys) {
  const size_t rows = params.rowsPerBlock;
  const int parts = params.args.logSumExp == nullptr ? 0 : params.logSumParts;
  return rows * sharedKeys * sizeof(Key) + TopKLists<32>::sharedBytes(params.rowsPerBlock, warps) +
         LogSums::sharedBytes(parts, params.rowsPerBlock, warps);
}

// For scorers that share no tiles.
struct OwnTiles {
  static constexpr bool kSharesTiles = false;
  __device__ int64_t tileAfter(int64_t index) const { return index + gridDim.x; }
};

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

// A Scorer has: `Params`; kThreads, of which the first kWorkers score; kTileVocab and kSmallTileVocab;
// `sharedBytes()`, a multiple of 8; a constructor that all threads run, with the shared memory and the block's rows;
// kStartsEarly: whether that runs before the kernel in front has ended: then `startWork()` waits for it, and
// `assist()` where it must; `assist(tiling)`, all that the threads behind the workers do; `startWork()`, what
// workers do first; `scoreTile(tile, lists, logSums)`, which all workers call and which offers the scores of the ids
// of `tile` for each row that it `serves`; kSharesTiles, see Tiling; and `tileAfter(index)`, the next tile of this
// block.
//
// RestScorer: not void where rows may remain that Scorer does not serve: a second sweep, of the same tiles, serves
// those of `splitRows()`. Nearly always there is none, which costs no launch this way.
template <class Scorer, class RestScorer>
__global__ void __launch_bounds__(Scorer::kThreads, 1)
    scanKernel(const __grid_constant__ ScanParams params,
               const __grid_constant__ typename Scorer::Params scorerParams) {
  extern __shared__ __align__(1024) unsigned char shared[];
  allowNextKernel();
  if (!Scorer::kStartsEarly || params.again) waitForPreviousKernel();
  constexpr int kWorkers = Scorer::kWorkers;
  const int64_t rowBegin = static_cast<int64_t>(blockIdx.y) * params.rowsPerBlock;
  const int rows = static_cast<int>(min(static_cast<int64_t>(params.rowsPerBlock), params.args.rows - rowBegin));
  const Tiling& tiling = params.tiling;

  if (params.again) {
    bool lost = false;
    for (int row = 0; row < rows; ++row) lost |= isLost(params, rowBegin + row);
    if (!lost) return;
  }
  Scorer scorer(params, scorerParams, shared, rowBegin, rows);
  Key* next = reinterpret_cast<Key*>(shared + scorer.sharedBytes());
  TopKLists<kWorkers> lists;
  lists.capacity = params.listCapacity;
  if (params.lists == nullptr) {
    lists.keys = next;
    lists.rowStride = params.listCapacity;
    next += params.rowsPerBlock * params.listCapacity;
  } else {
    lists.rowStride = static_cast<int64_t>(gridDim.x) * params.listCapacity;
    lists.keys = params.lists + rowBegin * lists.rowStride + static_cast<int64_t>(blockIdx.x) * params.listCapacity;
  }
  lists.k = params.k;
  lists.rows = rows;
  lists.rowBegin = rowBegin;
  lists.shared = reinterpret_cast<unsigned char*>(next);
  lists.rowsPerBlock = params.rowsPerBlock;
  LogSums logSums{nullptr, params.logSums, params.rowsPerBlock, params.logSumsOfRow, Scorer::kSharesTiles};
  if (params.logSums != nullptr)
    logSums.slots = reinterpret_cast<LogSum*>(lists.shared + lists.sharedBytes(params.rowsPerBlock, kWorkers / 32));
  lists.bounds = params.bounds;
  lists.pool = params.pool;
  // A row that is scanned again belongs to one block, which needs no thresholds from others.
  if (params.again) lists.pool.blocks = 1;

  // Read from one lane, so that the compiler knows that whole warps take a branch: warpgroup products need that.
  if (__shfl_sync(0xffffffffu, threadIdx.x / 32, 0) >= kWorkers / 32) {
    scorer.assist(tiling);
    return;
  }
  scorer.startWork();

  const auto wanted = [&](const auto& tileScorer, int row) {
    return tileScorer.serves(row) && (!params.again || isLost(params, rowBegin + row));
  };
  const auto sweep = [&](auto& tileScorer) {
    const auto served = [&](int row) { return row < rows && wanted(tileScorer, row); };
    lists.reset(served);
    logSums.reset(kWorkers / 32, served);
    syncWorkers<kWorkers>();
    int done = 0;
    for (int64_t index = blockIdx.x, next; index < tiling.tiles; index = next) {
      if (Scorer::kSharesTiles && index >= tiling.firstShared)
        logSums.nextPart(kWorkers / 32, gridDim.x + static_cast<int>(index - tiling.firstShared));
      tileScorer.scoreTile(tiling.at(index), lists, logSums);
      next = tileScorer.tileAfter(index);
      ++done;
      // Blocks look at each other's thresholds often while thresholds rise fast; and, where lists may be long, before
      // the last tile, so that they hand over few keys.
      const bool exchange = (done & (done - 1)) == 0 && next < tiling.tiles;
      if (exchange && lists.publishesBests()) lists.exchangeBests(done > 1);
      const bool beforeLast = next < tiling.tiles && next + gridDim.x >= tiling.tiles;
      const bool look = !lists.publishesBests() && (exchange || beforeLast);
      const bool check = done % params.tilesPerCheck == 0;
      if ((look || check) && anyOfWorkers<kWorkers>(look || lists.anyFull(params.roomPerCheck))) {
        lists.tidy(params.roomPerCheck, look);
        syncWorkers<kWorkers>();
      }
    }
    syncWorkers<kWorkers>();
    if (done <= 2 && lists.publishesBests()) lists.exchangeBests(true);
    // The same warp has the same rows in both.
    lists.tidy(params.listCapacity - params.k, true);
    lists.handOver(params.again);
    logSums.handOver<kWorkers / 32>(rowBegin, rows, served);
  };
  sweep(scorer);
  if constexpr (!std::is_void_v<RestScorer>) {
    RestScorer rest(params, {scorer.splitRows()}, shared, rowBegin, rows);
    bool any = false;
    for (int row = 0; row < rows; ++row) any |= wanted(rest, row);
    if (!any) return;
    syncWorkers<kWorkers>();
    sweep(rest);
  }
}

}  // namespace lm_head
