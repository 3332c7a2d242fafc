// 16-bit heads on compute capability 9.0: one thread keeps bulk tensor copies in flight, warpgroups multiply from
// shared memory.
#pragma once

#include "common/hopper.cuh"
#include "lm_head_topk_scan.cuh"
#include "lm_head_topk_split.cuh"

namespace lm_head {

struct HopperScorerParams {
  CUtensorMap weight;  // boxes of kTileVocab ids x kChunk columns
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
                       kTileVocab = kWarpgroups * 64;
  static constexpr int kRows = kColumns / 2;
  static constexpr int kChunk = 64;  // columns, 128 bytes: what one swizzle pattern spans
  static constexpr int kFlush = 256;
  static constexpr int kWeightBytes = kTileVocab * kChunk * 2;
  static constexpr int kPartBytes = kColumns * kChunk * 2;
  static constexpr int kStageBytes = kWeightBytes + kPartBytes;
  static constexpr size_t kSharedBytes = static_cast<size_t>(kStages) * kStageBytes +
                                         (2 * kStages * sizeof(uint64_t) + kRows * sizeof(SplitRow) + 15) / 16 * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ HopperScorer(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
                          int rows)
      : args_(scan.args), params_(params), shared_(shared), rowBegin_(rowBegin), rows_(rows) {
    full_ = reinterpret_cast<uint64_t*>(shared + kStages * kStageBytes);
    empty_ = full_ + kStages;
    splitRows_ = reinterpret_cast<SplitRow*>(empty_ + kStages);
    for (int row = threadIdx.x; row < rows; row += kThreads) splitRows_[row] = params.splitRows[rowBegin + row];
    chunks_ = static_cast<int>((args_.hiddenSize + kChunk - 1) / kChunk);
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < kStages; ++stage) {
        initBarrier(full_ + stage, 1);
        initBarrier(empty_ + stage, kWorkers / 32);
      }
      fenceBarrierInit();
    }
    __syncthreads();
  }

  __device__ bool hasWork() const { return true; }
  __device__ bool serves(int row) const { return !splitRows_[row].plain; }

  // Copies chunk after chunk of this block's tiles, as far ahead as there are free stages.
  __device__ void assist() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kHelperRegisters));
    if (threadIdx.x != kWorkers) return;
    const int64_t tiles = (args_.vocabSize + kTileVocab - 1) / kTileVocab;
    int stage = 0;
    uint32_t parity = 1;  // a fresh barrier counts as emptied
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        waitBarrier(empty_ + stage, parity);
        unsigned char* memory = shared_ + stage * kStageBytes;
        arriveExpecting(full_ + stage, kStageBytes);
        copyTensorBox(memory, &params_.weight, chunk * kChunk, static_cast<int>(tile * kTileVocab), full_ + stage,
                      kEvictFirst);
        copyTensorBox(memory + kWeightBytes, &params_.parts, chunk * kChunk, static_cast<int>(2 * rowBegin_),
                      full_ + stage, kEvictLast);
        advance(stage, parity);
      }
    }
  }

  __device__ void startWork() {
    if constexpr (kMovesRegisters) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kWorkerRegisters));
  }

  __device__ void scoreTile(int64_t tile, TopKLists<kWorkers>& lists) {
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    float products[kColumns / 2];
    float sums[kColumns / 8][2] = {};
    for (int chunk = 0; chunk < chunks_; ++chunk) {
      const bool first = chunk % (kFlush / kChunk) == 0;
      const bool last = chunk % (kFlush / kChunk) == kFlush / kChunk - 1 || chunk == chunks_ - 1;
      waitBarrier(full_ + stage_, parity_);
      const unsigned char* memory = shared_ + stage_ * kStageBytes;
      const uint64_t weights = matrixDescriptor(memory + warpgroup * 64 * kChunk * 2);
      const uint64_t parts = matrixDescriptor(memory + kWeightBytes);
      fenceProducts();
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step) {
        WarpgroupProduct<Half, kColumns>::run(products, weights + 2 * step, parts + 2 * step, !first || step > 0);
      }
      commitProducts();
      // The products of the chunk before have ended: its stage can be filled again.
      waitForProducts<1>();
      if (!first) release(previousStage_);
      previousStage_ = stage_;
      advance(stage_, parity_);
      if (!last) continue;
      waitForProducts<0>();
      release(previousStage_);
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
        sums[i][0] += joinParts<Half>(products[4 * i], products[4 * i + 1]);
        sums[i][1] += joinParts<Half>(products[4 * i + 2], products[4 * i + 3]);
      }
    }
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int64_t id = tile * kTileVocab + threadIdx.x / 32 * 16 + g;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      const int row = 4 * i + t;
      if (row >= rows_ || splitRows_[row].plain) continue;
      offer(lists, row, id, sums[i][0]);
      offer(lists, row, id + 8, sums[i][1]);
    }
  }

 private:
  __device__ void offer(TopKLists<kWorkers>& lists, int row, int64_t id, float sum) const {
    if (id >= args_.vocabSize) return;
    const float score = finishScore(scalbnf(sum, splitRows_[row].exponent), args_.bias, id);
    lists.offer(row, score, static_cast<uint32_t>(id));
  }

  __device__ void release(int stage) const {
    if (threadIdx.x % 32 == 0) arrive(empty_ + stage);
  }

  static __device__ void advance(int& stage, uint32_t& parity) {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  const LmHeadTopKArgs& args_;
  const Params& params_;
  unsigned char* shared_;
  int64_t rowBegin_;
  int rows_;
  uint64_t* full_;   // completes when a stage's copies have come
  uint64_t* empty_;  // completes when every worker warp has done with a stage
  SplitRow* splitRows_;
  int chunks_;
  int stage_ = 0;
  int previousStage_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace lm_head
