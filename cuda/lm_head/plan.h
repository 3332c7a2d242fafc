// How a call is cut into launches, blocks and memory: every choice of sizes stands here, host code that every format
// shares.
#pragma once

#include "lm_head.h"
#include "sweep.cuh"

namespace lm_head {

struct GpuInfo {
  int index = -1;
  int computeCapability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  size_t sharedBytes = 0;  // that a block can have

  // Of the current device. Its attributes never change, so a thread asks for them once.
  static cudaError_t current(GpuInfo* gpu);
};

// What a plan has to know of a main loop.
struct MainloopShape {
  int rowsPerBlock;
  int tileVocab;
  int smallTileVocab;
  size_t (*topKBytes)(int rowsPerBlock, int sharedKeys);
  size_t (*logSumBytes)(int rowsPerBlock);
  size_t sharedBytes;
  bool dealtTiles;  // see Tiling
  bool dynamicTiles;

  template <class Mainloop>
  static MainloopShape of(int rowsPerBlock, size_t sharedBytes) {
    return {rowsPerBlock,
            Mainloop::kTileVocab,
            Mainloop::kSmallTileVocab,
            Reductions<Mainloop, Epilogue::kPlain>::Best::sharedBytes,
            Reductions<Mainloop, Epilogue::kPlain>::LogSums::sharedBytes,
            sharedBytes,
            Mainloop::kDealtTiles,
            Mainloop::kDynamicTiles};
  }

  // What the reductions need of shared memory, with lists of `listKeys` there.
  size_t reductionBytes(int listKeys, bool logSumExp) const;

  // Whether the least that reductions need fits beside the main loop's.
  bool fits(const GpuInfo& gpu, bool logSumExp) const {
    return sharedBytes + reductionBytes(0, logSumExp) <= gpu.sharedBytes;
  }
};

struct Plan;

// One format on one kind of GPU.
struct Variant {
  bool (*supports)(const LmHeadTopKArgs&, const GpuInfo&, Path);
  MainloopShape (*shape)(const LmHeadTopKArgs&, const GpuInfo&);
  // Bytes of hidden as the main loop wants it.
  size_t (*hiddenBytes)(const Plan&);
  // The prologue: makes that, and empties each row's pool.
  cudaError_t (*prepare)(const Plan&, const RowPool&, void* hidden, cudaStream_t);
  cudaError_t (*sweep)(const Plan&, const SweepParams&, const void* hidden, cudaStream_t);
};

// The first that supports a call is the best; see variants/table.cu. Null where none does.
const Variant* chooseVariant(const LmHeadTopKArgs& args, const GpuInfo& gpu, Path path);

// Rows that one launch serves: scratch memory of a prompt's thousands of rows is that of so many (42 MiB with logSumExp
// at V = 128,256), and the grid is full long before.
constexpr int64_t kMaxRowsPerLaunch = 1024;

// The shape of the sweeps of at most kMaxRowsPerLaunch rows.
struct Plan {
  LmHeadTopKArgs args;
  GpuInfo gpu;
  const Variant* variant;
  MainloopShape shape;
  int rowGroups;
  int blocks;  // a row group
  Tiling tiling;
  int k;             // results of a sweep
  int keep;          // see TopKParams
  int listCapacity;  // of a row and block
  bool listsMayFill;
  bool sharedLists;
  bool mayCut;       // blocks may lose keys for want of room
  int poolCapacity;  // of a row
  int publishedRank;
  bool logSumExp;  // is wanted

  // cudaErrorNotSupported where no variant serves the call.
  static cudaError_t make(const LmHeadTopKArgs& args, const Tuning& tuning, Plan* plan);

  size_t sweepSharedBytes() const {
    return shape.sharedBytes + shape.reductionBytes(sharedLists ? listCapacity : 0, logSumExp);
  }
};

}  // namespace lm_head
