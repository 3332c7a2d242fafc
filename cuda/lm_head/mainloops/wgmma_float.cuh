// float32 heads on compute capability 9.0, on tensor cores and without rounding weights: a weight is the sum of two
// tf32 numbers, as every hidden element is (see SplitRow), and all four products are summed. Only magnitudes that tf32
// cannot split well (NaN, infinities, below 2^-90) need plain arithmetic: ids that hold such a weight are noticed and
// scored again.
#pragma once

#include "../../ptx/wgmma.cuh"
#include "wgmma_dense.cuh"

namespace lm_head {

template <int kRows>
using WgmmaFloatBase = WgmmaDense<float, kRows, 2,
                                  kRows <= 16   ? 8
                                  : kRows == 32 ? 6
                                                : 5>;

template <int kRows>
class WgmmaMainloop<float, kRows> : public WgmmaFloatBase<kRows> {
 public:
  using Base = WgmmaFloatBase<kRows>;
  using Base::Base, Base::splitRows, Base::kChunk, Base::kColumns, Base::kWorkers;
  // Columns in the tensor core's own sum, which truncates, before a plain fp32 addition.
  static constexpr int kFlush = 128;

  template <class Reductions>
  __device__ __forceinline__ void scoreTile(const Tile& tile, Reductions& reductions) {
    const int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128, 0);
    // In a small tile, the last warpgroup has no ids, and multiplies what the stages held before.
    const bool idle = warpgroup * kGroupIds >= tile.size;
    const int64_t firstId = tile.id(threadIdx.x / 32 * 16);
    const IdPair ids = idle ? IdPair() : IdPair(args(), firstId);
    float products[kColumns / 2];
    float sums[kColumns / 8][2] = {};
    uint32_t smallest[2] = {~0u, ~0u},
             largest[2] = {0, 0};  // of this lane's weights of ids g and g+8, twice their bits
    const int chunks = this->chunks();
    for (int begin = 0; begin < chunks; begin += kFlush / kChunk) {
      const int end = min(begin + kFlush / kChunk, chunks);
      for (int chunk = begin; chunk < end; ++chunk) {
        multiply(products, chunk == begin, smallest, largest);
      }
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
        sums[i][0] += joinParts<float>(products[4 * i], products[4 * i + 1]);
        sums[i][1] += joinParts<float>(products[4 * i + 2], products[4 * i + 3]);
      }
    }
    for (const int half : {0, 1}) {
      const bool own = needsFp32(smallest[half], largest[half]);
      uint32_t lanes = __ballot_sync(0xffffffffu, own && ids.scored[half] && threadIdx.x % 4 == 0);
      for (; lanes != 0; lanes &= lanes - 1) {
        const int g = (__ffs(lanes) - 1) / 4;
        scoreInFp32(firstId + 8 * half + g, g, half, sums);
      }
    }
    emitSplit(reductions, splitRows(), ids, sums, threadIdx.x / 32);
  }

 private:
  using Base::args, Base::rows, Base::chunks, Base::next, Base::release;

  // Adds the products of the next chunk.
  __device__ void multiply(float (&products)[kColumns / 2], bool anew, uint32_t (&smallest)[2],
                           uint32_t (&largest)[2]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const typename Base::Chunk chunk = this->chunkAt(next());
    const uint64_t parts = matrixDescriptor(chunk.parts);
    uint32_t high[4][4], low[4][4];  // of 4 products: ids g and g+8 at term t, then at term t+4
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const unsigned char* row = chunk.weights + (threadIdx.x / 32 * 16 + 8 * upper + g) * 128;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // TMA has stored 16-byte piece p of row r at p ^ (r % 8).
        const float4 weights = *reinterpret_cast<const float4*>(row + ((4 * half + t) ^ g) * 16);
        split(weights.x, high[2 * half][upper], low[2 * half][upper], smallest[upper], largest[upper]);
        split(weights.y, high[2 * half][2 + upper], low[2 * half][2 + upper], smallest[upper], largest[upper]);
        split(weights.z, high[2 * half + 1][upper], low[2 * half + 1][upper], smallest[upper], largest[upper]);
        split(weights.w, high[2 * half + 1][2 + upper], low[2 * half + 1][2 + upper], smallest[upper], largest[upper]);
      }
    }
    fenceProducts();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      WarpgroupProductTf32<kColumns>::run(products, high[step], parts + 2 * step, !anew || step > 0);
      WarpgroupProductTf32<kColumns>::run(products, low[step], parts + 2 * step, 1);
    }
    commitProducts();
    waitForProducts<0>();
    release();
  }

  // weight = high + low, exactly; the tensor core reads the upper 19 bits of both.
  static __device__ void split(float weight, uint32_t& high, uint32_t& low, uint32_t& smallest, uint32_t& largest) {
    const uint32_t bits = __float_as_uint(weight);
    high = bits & 0xffffe000u;
    low = __float_as_uint(weight - __uint_as_float(high));
    const uint32_t magnitude = 2 * bits;
    smallest = min(smallest, magnitude - 1);  // 0 becomes the largest number
    largest = max(largest, magnitude);
  }

  // Whether an id, all of whose weights its four lanes have seen, holds one that needs plain arithmetic.
  static __device__ bool needsFp32(uint32_t smallest, uint32_t largest) {
    constexpr uint32_t kLeast = (127 - 90) << 24, kInfinite = 0xffu << 24;
    const bool odd = smallest < kLeast - 1 || largest >= kInfinite;
    return (__ballot_sync(0xffffffffu, odd) >> (threadIdx.x % 32 & ~3) & 15) != 0;
  }

  // A warp sums up one id for all rows in fp32, in place of what tensor cores have made of it. The lanes of quad g hold
  // the id's sums.
  __device__ void scoreInFp32(int64_t id, int g, int half, float (&sums)[kColumns / 8][2]) {
    const int lane = threadIdx.x % 32;
    const LmHeadTopKArgs& args = this->args();
    const BlockRows rows = this->rows();
    const float* weight = static_cast<const float*>(args.weight) + id * args.weightRowStride;
    for (int row = 0; row < rows.count; ++row) {
      if (splitRows()[row].needsFp32) continue;
      const float* hidden = args.hidden + (rows.begin + row) * args.hiddenSize;
      float sum = 0.0f;
      for (int64_t column = lane; column < args.hiddenSize; column += 32)
        sum = fmaf(weight[column], hidden[column], sum);
      for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (lane != 4 * g + row % 4) continue;
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
        if (i == row / 4) sums[i][half] = sum;
      }
    }
    __syncwarp();  // the barriers that follow count whole warps
  }
};

}  // namespace lm_head
