// 16-bit heads on compute capability 9.0: TMA fills shared memory, and warpgroups multiply from there.
#pragma once

#include "../../ptx/wgmma.cuh"
#include "loads.cuh"
#include "wgmma_dense.cuh"

namespace lm_head {

// Few rows: small tiles balance better. Many rows: large tiles, so that parts are read less often for each weight; but
// with two sums a score, 64 rows need more registers than four warpgroups have.
template <class Half, int kRows>
constexpr int kHalfWarpgroups = kRows <= 16                         ? 2
                                : kRows == 64 && !kJoinsParts<Half> ? 3
                                                                    : 4;

template <class Half, int kRows>
using WgmmaHalfBase = WgmmaDense<Half, kRows, kHalfWarpgroups<Half, kRows>,
                                 kRows <= 8                          ? 8
                                 : kRows == 16                       ? 7
                                 : kHalfWarpgroups<Half, kRows> == 3 ? 5
                                                                     : 4>;

// The chain of a product is the same for every kRows: 16 columns a step, kFlush columns in the tensor core's own sum
// (which truncates; short chains keep that small), then a plain fp32 sum. With joined parts, of each step the high ones
// and then the low ones go to the same sum: two would take so many registers that at 64 rows some of them went to
// memory and back.
template <class Half, int kRows>
class WgmmaMainloop : public WgmmaHalfBase<Half, kRows> {
 public:
  using Base = WgmmaHalfBase<Half, kRows>;
  using Base::Base, Base::splitRows, Base::kChunk, Base::kJoined, Base::kWorkers;
  static constexpr int kColumns = kJoined ? Base::kPartRows / 2 : Base::kPartRows;  // of a product
  static constexpr int kFlush = 256, kGroup = kFlush / kChunk;

  template <class Reductions>
  __device__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int warpgroup = __shfl_sync(0xffffffffu, threadOfBlock() / 128, 0);
    float sums[kRows / 4][2] = {};
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
      if constexpr (kJoined) repairSums(lower, sums);
    }
    emitSplit(reductions, splitRows(), ids, sums, warpOfBlock());
  }

 private:
  using Base::args, Base::rows, Base::chunks, Base::next, Base::release;

  __device__ void multiplyTile(int warpgroup, float (&sums)[kRows / 4][2]) {
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
      const uint64_t a = descriptorBehind(weights, step * 32), b = descriptorBehind(parts, step * 32);
      WarpgroupProduct<Half, kColumns>::run(products, a, b, !anew || step > 0);
      if (kJoined) WarpgroupProduct<Half, kColumns>::run(products, a, descriptorBehind(b, kColumns * 128), 1);
    }
    commitProducts();
    waitForProducts<0>();
    release();
  }

  static __device__ void addProducts(const float (&products)[kColumns / 2], float (&sums)[kRows / 4][2]) {
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      for (int half = 0; half < 2; ++half) {
        if constexpr (kJoined) {
          sums[i][half] += products[4 * (i / 2) + 2 * half + i % 2];
        } else {
          sums[i][half] += joinParts<Half>(products[4 * i + 2 * half], products[4 * i + 2 * half + 1]);
        }
      }
    }
  }

  // A warp: sums that are not finite are made again by plain arithmetic, for an infinite weight times a low part of 0
  // is NaN, and a low part may also have the other sign. Nearly never.
  __device__ void repairSums(uint32_t lower, float (&sums)[kRows / 4][2]) const {
    bool odd[2] = {false, false};
#pragma unroll
    for (int i = 0; i < kRows / 4; ++i) {
      odd[0] |= !isFinite(sums[i][0]);
      odd[1] |= !isFinite(sums[i][1]);
    }
    if (!__any_sync(0xffffffffu, odd[0] || odd[1])) return;
    repairHalf<0>(lower, odd[0], sums);
    repairHalf<1>(lower, odd[1], sums);
  }

  template <int kHalf>
  __device__ void repairHalf(uint32_t lower, bool odd, float (&sums)[kRows / 4][2]) const {
    const int lane = laneOfWarp(), g = lane / 4;
    for (uint32_t lanes = __ballot_sync(0xffffffffu, odd); lanes != 0;) {
      const int quad = (__ffs(lanes) - 1) / 4;
      lanes &= ~(15u << (4 * quad));
      const int64_t id = static_cast<int64_t>(lower) - g + quad + 8 * kHalf;
      // Rows go in turn past the first place: a sum with an index that is not known would lie in memory, all of them
      // would.
#pragma unroll 1
      for (int row = 0; row < kRows; ++row) {
        if (row < rows().count && !splitRows()[row].needsFp32) {
          const float sum = plainSum(id, row) / splitRows()[row].scale;
          if (lane == 4 * quad + row % 4 && !isFinite(sums[0][kHalf])) sums[0][kHalf] = sum;
        }
        if (row % 4 == 3) rotate<kHalf>(sums);
      }
    }
    __syncwarp();
  }

  template <int kHalf>
  static __device__ void rotate(float (&sums)[kRows / 4][2]) {
    const float first = sums[0][kHalf];
#pragma unroll
    for (int i = 0; i + 1 < kRows / 4; ++i) sums[i][kHalf] = sums[i + 1][kHalf];
    sums[kRows / 4 - 1][kHalf] = first;
  }

  static __device__ bool isFinite(float x) { return fabsf(x) <= 0x1.fffffep127f; }

  // A warp.
  __device__ float plainSum(int64_t id, int row) const {
    const float* hidden = args().hidden + (rows().begin + row) * args().hiddenSize;
    float sum = 0.0f;
#pragma unroll 1
    for (int64_t column = 4 * laneOfWarp(); column < args().hiddenSize; column += 4 * 32) {
      const float4 four = LoadHalf<Half>::load(args(), id, column);
      const float weights[] = {four.x, four.y, four.z, four.w};
      for (int i = 0; i < 4; ++i) {
        if (column + i < args().hiddenSize) sum = fmaf(weights[i], hidden[column + i], sum);
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    return sum;
  }
};

}  // namespace lm_head
