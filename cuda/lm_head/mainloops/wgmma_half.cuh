// 16-bit heads on compute capability 9.0: TMA fills shared memory, and warpgroups multiply from there.
#pragma once

#include "../../ptx/wgmma.cuh"
#include "wgmma_dense.cuh"

namespace lm_head {

// Few rows: small tiles balance better. Many rows: large tiles, so that parts are read less often for each weight; but
// of four warpgroups, each with 64 rows, a thread has so few registers that some of its sums would go to memory and
// back.
template <int kRows>
constexpr int kHalfWarpgroups = kRows <= 16   ? 2
                                : kRows == 32 ? 4
                                              : 3;

template <class Half, int kRows>
using WgmmaHalfBase = WgmmaDense<Half, kRows, kHalfWarpgroups<kRows>,
                                 kRows <= 8    ? 8
                                 : kRows == 16 ? 7
                                 : kRows == 32 ? 4
                                               : 5>;

// The chain of a product is the same for every kRows: 16 columns a step, kFlush columns in the tensor core's own sum
// (which truncates; short chains keep that small), then a plain fp32 sum.
template <class Half, int kRows>
class WgmmaMainloop : public WgmmaHalfBase<Half, kRows> {
 public:
  using Base = WgmmaHalfBase<Half, kRows>;
  using Base::Base, Base::splitRows, Base::kChunk, Base::kColumns, Base::kWorkers;
  static constexpr int kFlush = 256, kGroup = kFlush / kChunk;

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int warpgroup = __shfl_sync(0xffffffffu, threadOfBlock() / 128, 0);
    float sums[kColumns / 8][2] = {};
    const bool idle = warpgroup * kGroupIds >= tile.size;
    const uint32_t lower = idle ? IdPair::kNoId : static_cast<uint32_t>(tile.id(warpOfBlock() * 16)) + laneOfWarp() / 4;
    // Bias is loaded early.
    const IdPair ids = IdPair::ofLower(args(), lower);
    if (idle) {
      // Nothing to do in a small tile, but every chunk wants to be released.
      for (int chunk = 0; chunk < chunks(); ++chunk) {
        next();
        release();
      }
    } else {
      multiplyTile(warpgroup, sums);
    }
    emitSplit(reductions, splitRows(), ids, sums, warpOfBlock());
  }

 private:
  using Base::args, Base::chunks, Base::next, Base::release;

  __device__ void multiplyTile(int warpgroup, float (&sums)[kColumns / 8][2]) {
    float products[kColumns / 2];
    const uint64_t weights = matrixDescriptor(this->chunkAt(0).weights + warpgroup * kGroupIds * 128);
    int left = chunks();
    for (; left >= kGroup; left -= kGroup) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) multiply(products, weights, i == 0);
      addProducts(products, sums);
    }
    if (left == 0) return;
    for (bool first = true; left > 0; --left, first = false) multiply(products, weights, first);
    addProducts(products, sums);
  }

  // Adds the products of the next chunk. They are waited for at once, so that its stage is filled again at once: while
  // they run, there are those of other warpgroups. `firstWeights`: of this warpgroup, in the first stage.
  __device__ void multiply(float (&products)[kColumns / 2], uint64_t firstWeights, bool anew) {
    const uint32_t behind = next() * Base::kStageBytes;
    const uint64_t weights = descriptorBehind(firstWeights, behind),
                   parts = descriptorBehind(matrixDescriptor(this->chunkAt(0).parts), behind);
    fenceProducts();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      WarpgroupProduct<Half, kColumns>::run(products, descriptorBehind(weights, step * 32),
                                            descriptorBehind(parts, step * 32), !anew || step > 0);
    }
    commitProducts();
    waitForProducts<0>();
    release();
  }

  static __device__ void addProducts(const float (&products)[kColumns / 2], float (&sums)[kColumns / 8][2]) {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      sums[i][0] += joinParts<Half>(products[4 * i], products[4 * i + 1]);
      sums[i][1] += joinParts<Half>(products[4 * i + 2], products[4 * i + 3]);
    }
  }
};

}  // namespace lm_head
