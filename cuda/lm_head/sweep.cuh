// The sweep over the vocabulary that every head format shares: blocks walk over tiles of ids, a main loop makes the
// sums of a tile, the epilogue scores of them, and reductions keep what is wanted.
//
// A main loop has: `Params`; kThreads, of which the first kWorkers score, and the others only copy; kTileVocab,
// kSmallTileVocab, kUnitIds (see MainloopShape), kSeedsOf (see TopK); a constructor that all threads run, with the
// shared memory and the block's rows, and `sharedBytes()`, a multiple of 8; kStartsEarly: whether that runs before the
// kernel in front has ended: then `startWork()` waits for it, and `produce()` where it must; `produce()`, all that the
// threads behind the workers do; `startWork()`, what workers do first; `scoreTile(tile, reductions)`, which all workers
// call, and which emits the same number of fragments in each of them; whether it `serves(row)`; and `tileAfter(index)`,
// the next tile of this block.
#pragma once

#include <type_traits>

#include "../common/dependent_launch.cuh"
#include "epilogue.cuh"

namespace lm_head {

// For main loops without dynamic tiles.
struct OwnTiles {
  static constexpr bool kDynamicTiles = false, kDealtTiles = false;
  __device__ int64_t tileAfter(int64_t index) const { return index + gridDim.x; }
};

// Whether any row of the block is to be swept once more.
__device__ inline bool anyRescan(const SweepParams& params, int64_t rowBegin, int rows) {
  bool any = false;
  for (int row = 0; row < rows; ++row) any |= params.topK.pool.rescanBounds[rowBegin + row] != kWorstKey;
  return any;
}

// All workers, before a tile is multiplied: what options say of its ids and the block's rows comes nearer meanwhile.
template <int kWorkers>
__device__ inline void prefetchOptions(const LmHeadTopKArgs& args, const Tile& tile, const BlockRows& rows) {
  const ScoreOptions& options = args.options;
  const auto prefetch = [](const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); };
  // 32 ids at a time: a word of bits, or 128 bytes of floats.
  const int pieces = tile.size / 32;
  for (int i = threadOfBlock(); i < pieces * rows.count; i += kWorkers) {
    const int64_t place = tile.id(i % pieces * 32), row = rows.begin + i / pieces;
    if (place >= args.vocabSize) continue;
    const auto id = static_cast<uint32_t>(args.vocabStart + place);
    if (options.mask != nullptr) prefetch(options.mask + row * options.maskStride + id / 32);
    const AdjustOption& adjust = options.adjust;
    if (adjust.ids != nullptr)
      prefetch(adjust.index.listed + adjust.listOf(row) * adjust.index.words + adjust.index.wordOf(id));
    if (options.rowBias != nullptr) prefetch(options.rowBias + row * args.vocabSize + place);
  }
}

// One pass of a block over its tiles. kSeeds: whether the first tile has seeds, see TopK.
template <bool kSeeds, class Mainloop, class Kept>
__device__ __forceinline__ void sweepTiles(const SweepParams& params, Mainloop& mainloop, Kept& reductions) {
  const auto served = [&](int row) {
    return mainloop.serves(row) &&
           (!params.topK.rescan || params.topK.pool.rescanBounds[reductions.rows().begin + row] != kWorstKey);
  };
  const Tiling& tiling = params.tiling;
  reductions.topK().reset(served);
  syncWorkers<Mainloop::kWorkers>();
  reductions.done = 0;
  for (int index = blockIdx.x; index < tiling.tiles;) {
    if constexpr (Kept::kOptions) {
      if (params.args.options.any())
        prefetchOptions<Mainloop::kWorkers>(params.args, tiling.at(index), reductions.rows());
    }
    mainloop.scoreTile(tiling.at(index), reductions);
    if (reductions.wantsLogSums())
      reductions.logSums().finishTile(tiling.at(index), params.args.vocabSize, reductions.done, served);
    index = static_cast<int>(mainloop.tileAfter(index));
    ++reductions.done;
    if (Kept::kOptions && params.args.sumsAlone) continue;
    reductions.topK().endTile(reductions.done, kSeeds, index >= tiling.tiles);
  }
  if (reductions.wantsLogSums()) reductions.logSums().flush(reductions.done, served);
}

// RestMainloop: not void where rows may remain that Mainloop does not serve: a second pass, over the same tiles, serves
// those of `splitRows()`. Nearly always there is none, which costs no launch this way.
template <class Mainloop, class RestMainloop, Epilogue kEpilogue>
__global__ void __launch_bounds__(Mainloop::kThreads, 1)
    sweepKernel(const __grid_constant__ SweepParams params,
                const __grid_constant__ typename Mainloop::Params mainloopParams) {
  extern __shared__ __align__(1024) unsigned char shared[];
  triggerDependentLaunch();
  if (!Mainloop::kStartsEarly || params.topK.rescan) waitForPreviousKernel();
  constexpr int kWorkers = Mainloop::kWorkers;
  const int64_t rowBegin = static_cast<int64_t>(blockIdx.y) * params.rowsPerBlock;
  const int rows = static_cast<int>(min(static_cast<int64_t>(params.rowsPerBlock), params.args.rows - rowBegin));
  if (params.topK.rescan && !anyRescan(params, rowBegin, rows)) return;

  Mainloop mainloop(params, mainloopParams, shared, rowBegin, rows);
  // Read from one lane, so that the compiler knows that whole warps take a branch: warpgroup products need that.
  if (__shfl_sync(0xffffffffu, threadIdx.x / 32, 0) >= kWorkers / 32) {
    mainloop.produce();
    return;
  }
  Reductions<Mainloop, kEpilogue> reductions(params, shared + mainloop.sharedBytes());
  mainloop.startWork();
  sweepTiles<(Mainloop::kSeedsOf > 0)>(params, mainloop, reductions);
  if constexpr (!std::is_void_v<RestMainloop>) {
    RestMainloop rest(params, {mainloop.splitRows()}, shared, rowBegin, rows);
    bool any = false;
    for (int row = 0; row < rows; ++row) any |= rest.serves(row);
    if (!any) return;
    syncWorkers<kWorkers>();
    sweepTiles<false>(params, rest, reductions);
  }
}

}  // namespace lm_head
