// Hidden as binary heads multiply it: each row quantized to int8, in the order in which tensor-core fragments take it.
#pragma once

#include "../../common/dependent_launch.cuh"
#include "../../common/quantize.cuh"
#include "../mainloops/binary_scores.cuh"

namespace lm_head {

struct QuantizeParams {
  LmHeadTopKArgs args;
  HiddenForm form;
  BinaryHidden shape;
  int groupWords;  // of 32 columns
  unsigned char* hidden;
  RowPool pool;
};

// Of eight rows, the column of the fragment that row r takes: a lane gets sums of columns 2t and 2t+1, which are rows t
// and t+4 then, as a fragment has them, see fragment.cuh.
__device__ inline int columnOfRow(int row) { return row / 8 * 8 + row % 4 * 2 + row / 4 % 2; }

// A lane's four columns of a block, and their q, a byte each. With planes, lane l has column l of each of the four
// words; with bytes, lane 8t + s has columns s + 8i of word t.
struct QuantizedBlock {
  float x[4];

  __device__ void load(const QuantizeParams& params, const float* row, int block, int words) {
    const int lane = threadIdx.x % 32, firstWord = block * BinaryLayout::kBlockWords;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int word = firstWord + (params.form == HiddenForm::kPlanes ? i : lane / 8);
      const int column = params.form == HiddenForm::kPlanes ? lane : lane % 8 + 8 * i;
      x[i] = word < words ? row[word * 32 + column] : 0.0f;
    }
  }

  __device__ uint32_t quantized(float step) const {
    uint32_t bytes = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) bytes |= (quantize(x[i], step) & 0xffu) << (8 * i);
    return bytes;
  }
};

// A warp: the bit planes of a block, and its groups' bases.
__device__ inline void storePlanes(const QuantizeParams& params, unsigned char* hidden, int place, int block,
                                   uint32_t bytes) {
  const BinaryHidden& shape = params.shape;
  const int lane = threadIdx.x % 32;
  uint32_t mine = 0;
#pragma unroll 8  // short code: it runs once, so what counts is to fetch it
  for (int bit = 0; bit < 32; ++bit) {
    const uint32_t bits = __ballot_sync(0xffffffffu, bytes >> bit & 1);
    if (lane == bit % 8 * 4 + bit / 8) mine = bits;
  }
  const int chunk = block / BinaryLayout::kChunkBlocks;
  const int chunkBlocks = min(BinaryLayout::kChunkBlocks, shape.blocks - chunk * BinaryLayout::kChunkBlocks);
  uint32_t* planes =
      reinterpret_cast<uint32_t*>(hidden) + (place * shape.blocks + chunk * BinaryLayout::kChunkBlocks) * 32;
  planes[lane * chunkBlocks + block % BinaryLayout::kChunkBlocks] = mine;
  int* bases = shape.bases(hidden) + place * shape.groups;
  if (params.groupWords == BinaryLayout::kBlockWords) {
    const int sum = __reduce_add_sync(0xffffffffu, __dp4a(static_cast<int>(bytes), 0x01010101, 0));
    if (lane == 0) bases[block] = kFloatBits - sum;
    return;
  }
#pragma unroll 1
  for (int t = 0; t < BinaryLayout::kBlockWords; ++t) {
    const int group = (block * BinaryLayout::kBlockWords + t) / params.groupWords;
    const int sum = __reduce_add_sync(0xffffffffu, static_cast<signed char>(bytes >> (8 * t)));
    // Words behind the last are zeros.
    if (lane == 0 && group < shape.groups) atomicSub(bases + group, sum);
  }
}

// A warp: the bytes of a block.
__device__ inline void storeBytes(const QuantizeParams& params, unsigned char* hidden, int place, int block,
                                  uint32_t bytes) {
  const int t = threadIdx.x % 32 / 8, s = threadIdx.x % 8, column = columnOfRow(place);
  const int at = params.form == HiddenForm::kSwizzledBytes
                     ? (block * params.shape.rows + column) * 32 + (s ^ column % 8) * 4 + t
                     : (column / 8 * params.shape.blocks + block) * 256 + (s / 4 * 32 + column % 8 * 4 + t) * 4 + s % 4;
  reinterpret_cast<uint32_t*>(hidden)[at] = bytes;
}

// Grid (parts, rows), rows behind the last included: they become zeros. Each part quantizes some blocks of a row, whole
// groups, a warp a block at a time, and finds the row's scale by itself. Also empties the row's pool. A row with NaN or
// infinity gets scale NaN, for IEEE arithmetic would make all of its scores NaN.
//
// What a row group's BinaryHidden holds.
// Planes: [rows], then as the words of one id lie in chunks, with the plane in place of id % 8.
//
// Bytes: [rows / 8, blocks, 2, 32 lanes, 16]; lane = column % 8 * 4 + word % 4, see columnOfRow; byte 4s+i of a lane's
// 32 is bit s + 8i of its word.
//
// Swizzled bytes: [blocks, columns, 128]; byte 16s + 4 * (word % 4) + i of a column is that bit, in the 128-byte
// swizzle that warpgroup products read.
//
// Bases, with planes alone: [rows, groups], kFloatBits minus the sum of q over the group.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) quantizeHiddenKernel(const __grid_constant__ QuantizeParams params) {
  triggerDependentLaunch();
  constexpr int kWarps = kThreads / 32;
  const LmHeadTopKArgs& args = params.args;
  const int row = blockIdx.y, hiddenSize = row < args.rows ? static_cast<int>(args.hiddenSize) : 0;
  const float* source = args.hidden + row * args.hiddenSize;
  // What is quantized first is loaded together with what gives the scale: loads take long while the sweep begins.
  int block = blockIdx.x * kWarps + threadIdx.x / 32;
  QuantizedBlock quantized;
  quantized.load(params, source, block, hiddenSize / 32);
  if (row < args.rows && blockIdx.x == 0) clearRow(params.pool, row);
  const BinaryHidden& shape = params.shape;
  const int place = row % shape.rows;
  unsigned char* hidden = params.hidden + static_cast<int64_t>(row / shape.rows) * shape.bytes();
  if (shape.groups > 0) {
    // Of the groups that begin in this part: where each is a block, of those that have none.
    int* bases = shape.bases(hidden) + place * shape.groups;
    const int partGroups = gridDim.x == 1 ? shape.groups : kWarps * BinaryLayout::kBlockWords / params.groupWords;
    const bool byBlocks = params.groupWords == BinaryLayout::kBlockWords, last = blockIdx.x + 1 == gridDim.x;
    const int first = byBlocks ? shape.blocks : blockIdx.x * partGroups;
    const int end = last ? shape.groups : byBlocks ? 0 : first + partGroups;
    for (int group = first + threadIdx.x; group < end; group += kThreads) bases[group] = kFloatBits;
  }
  float scale = 0.0f, step = 1.0f;  // of whole numbers
  if (args.hiddenScale == nullptr) {
    scale = step = quantizationScaleOfAligned(source, hiddenSize);
  } else {
    if (row < args.rows) scale = args.hiddenScale[row];
    __syncthreads();  // as quantizationScaleOfAligned does: bases have their start
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) shape.scales(hidden)[place] = scale;
  while (block < shape.blocks) {
    if (params.form == HiddenForm::kPlanes) {
      storePlanes(params, hidden, place, block, quantized.quantized(step));
    } else {
      storeBytes(params, hidden, place, block, quantized.quantized(step));
    }
    block += gridDim.x * kWarps;
    quantized.load(params, source, block, hiddenSize / 32);
  }
}

}  // namespace lm_head
