// Hidden as binary heads multiply it: each row quantized to int8, in the order in which tensor-core fragments take it.
#pragma once

#include "common/binary_layout.h"
#include "common/dependent_launch.cuh"
#include "common/top_k_lists.cuh"
#include "lm_head_topk_args.h"

namespace lm_head {

// Integers from here to 2^22 further on are, as the bits of a float32, 1.5 * 2^23 plus the same distance. So a group's
// dot product d, kept as kFloatBits + d, turns into float(d) * scale with a single rounding by one fused multiply-add:
// (kFloatValue + d) * scale - kFloatValue * scale, where the last product is exact, for a scale has 11 bits.
constexpr int kFloatBits = 0x4b400000;
constexpr float kFloatValue = 12582912.0f;
// Beyond this, |d| could leave that range.
constexpr int64_t kMaxGroupSize = 32768;

// fl(d * scale) of bits = kFloatBits + d; offset = -kFloatValue * scale.
__device__ inline float scaledDot(int bits, float scale, float offset) {
  return __fmaf_rn(__int_as_float(bits), scale, offset);
}

struct QuantizeParams {
  LmHeadTopKArgs args;
  int rowsPerBlock;
  bool planes;  // else bytes
  uint32_t* operand;
  int* bases;
  float* rowScales;
  RowPool pool;
};

// A block a row, rows behind the last included: they become zeros. Also empties the row's pool.
//   scale = absmax / 127, q = round(h / scale) in two's complement; a row with NaN or infinity gets scale NaN, for IEEE
//   arithmetic would make all of its scores NaN.
//   planes: [rows], then as the words of one id lie in chunks, with the plane in place of id % 8.
//   bytes: [row groups, rowsPerBlock / 8, blocks, 2, 32 lanes, 16]; lane = row % 8 * 4 + word % 4; byte 4s+i of a lane's 32
//   is column s + 8i of its word.
//   bases: kFloatBits minus the sum of q over the group.
// Dynamic shared memory: a sum for each group, groups padded to quads.
__global__ void __launch_bounds__(1024) quantizeHiddenKernel(const QuantizeParams params) {
  extern __shared__ int groupSums[];
  __shared__ float warpLargest[32];
  allowNextKernel();
  const LmHeadTopKArgs& args = params.args;
  const BinaryLayout layout{args.hiddenSize, args.groupSize};
  const int64_t row = blockIdx.x;
  const bool real = row < args.rows;
  const float* source = args.hidden + row * args.hiddenSize;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int groups = static_cast<int>(layout.quads() * BinaryLayout::kQuadGroups);
  if (real) clearRow(params.pool, row);
  for (int group = threadIdx.x; group < groups; group += blockDim.x) groupSums[group] = 0;

  float scale = 0.0f, step = 1.0f;
  if (args.hiddenScale != nullptr) {
    scale = real ? args.hiddenScale[row] : 0.0f;
    __syncthreads();
  } else {
    float largest = 0.0f;
    int finite = 1;
    for (int64_t i = threadIdx.x; real && i < args.hiddenSize; i += blockDim.x) {
      const float magnitude = fabsf(source[i]);
      finite &= magnitude <= 0x1.fffffep127f;
      largest = fmaxf(largest, magnitude);
    }
    for (int offset = 16; offset > 0; offset /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    if (lane == 0) warpLargest[warp] = largest;
    finite = __syncthreads_and(finite);
    for (int other = 0; other < warps; ++other) largest = fmaxf(largest, warpLargest[other]);
    scale = step = finite ? __fdiv_rn(largest, 127.0f) : NAN;
  }
  if (real && threadIdx.x == 0) params.rowScales[row] = scale;

  const int64_t rowInGroup = row % params.rowsPerBlock, firstRow = row - rowInGroup;
  for (int64_t word = warp; word < layout.blocks() * BinaryLayout::kBlockWords; word += warps) {
    const bool there = real && word < layout.words();
    int q = 0;
    // A scale of 0, also by underflow, makes every score 0 whatever q is.
    if (there && step > 0.0f)
      q = static_cast<int>(fminf(fmaxf(rintf(__fdiv_rn(source[word * 32 + lane], step)), -127.0f), 127.0f));
    const int64_t block = word / BinaryLayout::kBlockWords, t = word % BinaryLayout::kBlockWords;
    if (params.planes) {
      uint32_t mine = 0;
      for (int plane = 0; plane < 8; ++plane) {
        const uint32_t bits = __ballot_sync(0xffffffffu, (q >> plane) & 1);
        if (lane == plane) mine = bits;
      }
      const int64_t chunk = block / BinaryLayout::kChunkBlocks;
      const int blocks = layout.blocksOfChunk(chunk);
      uint32_t* planes = params.operand + row * BinaryLayout::kLanes * layout.blocks() +
                         chunk * BinaryLayout::kLanes * BinaryLayout::kChunkBlocks;
      if (lane < 8) planes[(lane * 4 + t) * blocks + block % BinaryLayout::kChunkBlocks] = mine;
    } else {
      auto* bytes = reinterpret_cast<signed char*>(params.operand) + firstRow * layout.blocks() * 128 +
                    (rowInGroup / 8 * layout.blocks() + block) * 1024;
      const int s = lane % 8, i = lane / 8;
      bytes[(s / 4 * 32 + rowInGroup % 8 * 4 + t) * 16 + s % 4 * 4 + i] = static_cast<signed char>(q);
    }
    int sum = q;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0 && there) atomicAdd(&groupSums[word * 32 / args.groupSize], sum);
  }
  __syncthreads();
  for (int group = threadIdx.x; group < groups; group += blockDim.x) {
    const int64_t at = params.planes ? row * groups + group
                                     : firstRow * groups + group * static_cast<int64_t>(params.rowsPerBlock) + rowInGroup;
    params.bases[at] = kFloatBits - groupSums[group];
  }
}

}  // namespace lm_head
