// 16-bit heads on compute capability 9.0: one thread keeps bulk tensor copies in flight, warpgroups multiply from
// shared memory.
#pragma once

#include "common/hopper_products.cuh"
#include "lm_head_topk_hopper_copies.cuh"
#include "lm_head_topk_split.cuh"

namespace lm_head {

struct HopperScorerParams {
  CUtensorMap weight;  // boxes of kSmallTileVocab ids x kChunk columns
  CUtensorMap parts;   // boxes of kColumns part columns x kChunk
  const SplitRow* splitRows;
};

// kWarpgroups warpgroups, each 64 ids of the tile against kColumns columns of parts (two a row), and one warp that
// copies. The chain of a product is the same for every kColumns: 16 columns a step, kFlush columns in the tensor core's
// own sum (which truncates; short chains keep that small), then a plain fp32 sum.
template <class Half, int kColumns, int kWarpgroups, int kStages>
class HopperScorer {
 public:
  using Params = HopperScorerParams;
  // Where sums need more registers than an even share, a whole warpgroup of helpers gives up its own.
  static constexpr bool kMovesRegisters = kColumns == 128;
  static constexpr int kHelperRegisters = 24, kWorkerRegisters = 112;
  static constexpr int kWorkers = kWarpgroups * 128, kThreads = kWorkers + (kMovesRegisters ? 128 : 32),
                       kTileVocab = kWarpgroups * 64, kSmallTileVocab = 128;
  static constexpr int kRows = kColumns / 2;
  static constexpr int kChunk = 64;
  static constexpr int kFlush = 256, kGroup = kFlush / kChunk;
  using Ring = ChunkRing<kChunk, kTileVocab, kSmallTileVocab, kColumns, kStages, kWorkers>;
  static constexpr size_t kSharedBytes = (Ring::kSharedBytes + kRows * sizeof(SplitRow) + 15) / 16 * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ HopperScorer(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
                          int rows)
      : args_(scan.args), params_(params), rowBegin_(rowBegin), rows_(rows) {
    ring_.shared = shared;
    splitRows_ = reinterpret_cast<SplitRow*>(shared + Ring::kSharedBytes);
    for (int row = threadIdx.x; row < rows; row += kThreads) splitRows_[row] = params.splitRows[rowBegin + row];
    chunks_ = static_cast<int>((args_.hiddenSize + kChunk - 1) / kChunk);
    if (threadIdx.x == 0) ring_.init();
    __syncthreads();
  }

  __device__ bool serves(int row) const { return !splitRows_[row].plain; }
  __device__ const SplitRow* splitRows() const { return splitRows_; }

  __device__ void assist(const Tiling& tiling) {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kHelperRegisters));
    if (threadIdx.x != kWorkers) return;
    ring_.fill(&params_.weight, &params_.parts, 2 * rowBegin_, tiling, chunks_);
  }

  __device__ void startWork() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kWorkerRegisters));
  }

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    if (warpgroup * 64 >= tile.size) {
      // Nothing to do in a small tile, but every chunk wants to be released.
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        ring_.next();
        ring_.release(ring_.current());
      }
      return;
    }
    float products[kColumns / 2];
    float sums[kColumns / 8][2] = {};
    int chunk = 0;
    for (; chunk + kGroup <= chunks_; chunk += kGroup) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const int previous = ring_.current();
        multiply(products, warpgroup, i == 0);
        if (i == 0) continue;
        // The products of the chunk before have ended: its stage can be filled again.
        waitForProducts<1>();
        ring_.release(previous);
      }
      waitForProducts<0>();
      ring_.release(ring_.current());
      addProducts(products, sums);
    }
    if (chunk < chunks_) {
      for (bool first = true; chunk < chunks_; ++chunk, first = false) {
        multiply(products, warpgroup, first);
        waitForProducts<0>();
        ring_.release(ring_.current());
      }
      addProducts(products, sums);
    }
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int64_t id = tile.firstId + threadIdx.x / 32 * 16 + g;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      offerPair(lists, args_, splitRows_, 4 * i + t, rows_, id, id + 8, sums[i]);
    }
    if (logSums.wanted()) logSums.add(sums);
  }

 private:
  // Starts the products of the next chunk.
  __device__ void multiply(float (&products)[kColumns / 2], int warpgroup, bool anew) {
    const unsigned char* memory = ring_.next();
    const uint64_t weights = matrixDescriptor(memory + warpgroup * 64 * 128);
    const uint64_t parts = matrixDescriptor(memory + Ring::kWeightBytes);
    fenceProducts();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      WarpgroupProduct<Half, kColumns>::run(products, weights + 2 * step, parts + 2 * step, !anew || step > 0);
    }
    commitProducts();
  }

  static __device__ void addProducts(const float (&products)[kColumns / 2], float (&sums)[kColumns / 8][2]) {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      sums[i][0] += joinParts<Half>(products[4 * i], products[4 * i + 1]);
      sums[i][1] += joinParts<Half>(products[4 * i + 2], products[4 * i + 3]);
    }
  }

  const LmHeadTopKArgs& args_;
  const Params& params_;
  Ring ring_;
  int64_t rowBegin_;
  int rows_;
  SplitRow* splitRows_;
  int chunks_;
};

}  // namespace lm_head
