// 16-bit heads on compute capability 9.0: TMA fills shared memory, and warpgroups multiply from there.
#pragma once

#include "../../ptx/wgmma.cuh"
#include "wgmma_dense.cuh"

namespace lm_head {

// Few rows: small tiles balance better. Many rows: large tiles, so that parts are read less often for each weight.
template <class Half, int kRows>
using WgmmaHalfBase = WgmmaDense<Half, kRows, kRows <= 16 ? 2 : 4,
                                 kRows <= 8    ? 8
                                 : kRows == 16 ? 7
                                               : 4>;

// The chain of a product is the same for every kRows: 16 columns a step, kFlush columns in the tensor core's own sum
// (which truncates; short chains keep that small), then a plain fp32 sum.
template <class Half, int kRows>
class WgmmaMainloop : public WgmmaHalfBase<Half, kRows> {
 public:
  using Base = WgmmaHalfBase<Half, kRows>;
  using Base::Base, Base::kChunk, Base::kColumns, Base::kWorkers;
  static constexpr int kFlush = 256, kGroup = kFlush / kChunk;

  template <class Reductions>
  __device__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    float sums[kColumns / 8][2] = {};
    const bool idle = warpgroup * kGroupIds >= tile.size;
    const uint32_t lower =
        idle ? IdPair::kNoId : static_cast<uint32_t>(tile.id(threadIdx.x / 32 * 16)) + threadIdx.x % 32 / 4;
    // Bias is loaded early, but where the sums of many rows need the registers.
    IdPair ids;
    if (kRows < 64) ids = IdPair::ofLower(args_, lower);
    if (idle) {
      // Nothing to do in a small tile, but every chunk wants to be released.
      for (int chunk = 0; chunk < chunks_; ++chunk) {
        next();
        release();
      }
    } else {
      multiplyTile(warpgroup, sums);
    }
    if (kRows >= 64) ids = IdPair::ofLower(args_, lower);
    emitSplit(reductions, splitRows_, ids, sums, threadIdx.x / 32);
  }

 private:
  using Base::args_, Base::splitRows_, Base::chunks_, Base::next, Base::release;

  __device__ void multiplyTile(int warpgroup, float (&sums)[kColumns / 8][2]) {
    float products[kColumns / 2];
    int chunk = 0;
    for (; chunk + kGroup <= chunks_; chunk += kGroup) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) multiply(products, warpgroup, i == 0);
      addProducts(products, sums);
    }
    if (chunk < chunks_) {
      for (bool first = true; chunk < chunks_; ++chunk, first = false) multiply(products, warpgroup, first);
      addProducts(products, sums);
    }
  }

  // Adds the products of the next chunk. They are waited for at once, so that its stage is filled again at once: while
  // they run, there are those of other warpgroups.
  __device__ void multiply(float (&products)[kColumns / 2], int warpgroup, bool anew) {
    const typename Base::Chunk chunk = next();
    const uint64_t weights = matrixDescriptor(chunk.weights + warpgroup * kGroupIds * 128);
    const uint64_t parts = matrixDescriptor(chunk.parts);
    fenceProducts();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step) {
      WarpgroupProduct<Half, kColumns>::run(products, weights + 2 * step, parts + 2 * step, !anew || step > 0);
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
