// Hidden as binary heads multiply it: each row quantized to int8, in the order in which tensor-core fragments take it.
#pragma once

#include "common/dependent_launch.cuh"
#include "common/quantize.cuh"
#include "lm_head_topk_binary_scores.cuh"

namespace lm_head {

// Forms of quantized hidden, see quantizeHiddenKernel.
enum class HiddenForm { kPlanes, kBytes, kSwizzledBytes };

struct QuantizeParams {
  LmHeadTopKArgs args;
  int rowsPerBlock;
  int partBlocks;
  HiddenForm form;
  uint32_t* operand;
  int* bases;
  float* rowScales;
  RowPool pool;
};

// Of eight rows, the column of the fragment that row r takes: a lane gets sums of columns 2t and 2t+1, which are rows t
// and t+4 then, as LogSums::add wants them.
__device__ inline int columnOfRow(int row) { return row / 8 * 8 + row % 4 * 2 + row / 4 % 2; }

// Grid (parts, rows), rows behind the last included: they become zeros. Each part quantizes partBlocks blocks of a row,
// whole groups, and finds the row's scale by itself. Also empties the row's pool. A row with NaN or infinity gets scale
// NaN, for IEEE arithmetic would make all of its scores NaN.
//   planes: [rows], then as the words of one id lie in chunks, with the plane in place of id % 8.
//   bytes: [row groups, rowsPerBlock / 8, blocks, 2, 32 lanes, 16]; lane = column % 8 * 4 + word % 4, see columnOfRow;
//   byte 4s+i of a lane's 32 is bit s + 8i of its word.
//   swizzled bytes: [row groups, blocks, columns, 128]; byte 16s + 4 * (word % 4) + i of a column is that bit, in the
//   128-byte swizzle that warpgroup products read.
//   bases: kFloatBits minus the sum of q over the group; [rows, groups] with planes, else [row groups, groups,
//   columns].
// Dynamic shared memory: a sum for each group, groups padded to quads.
__global__ void __launch_bounds__(512) quantizeHiddenKernel(const QuantizeParams params) {
  extern __shared__ int groupSums[];
  allowNextKernel();
  const LmHeadTopKArgs& args = params.args;
  const BinaryLayout layout{args.hiddenSize, args.groupSize};
  const int64_t row = blockIdx.y, hiddenSize = row < args.rows ? args.hiddenSize : 0;
  const float* source = args.hidden + row * args.hiddenSize;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int blocks = static_cast<int>(layout.blocks()), groupWords = static_cast<int>(args.groupSize / 32);
  const int words = static_cast<int>(hiddenSize / 32);
  const int groups = static_cast<int>(layout.quads()) * BinaryLayout::kQuadGroups;
  const bool lastPart = blockIdx.x + 1 == gridDim.x;
  const int firstWord = blockIdx.x * params.partBlocks * BinaryLayout::kBlockWords;
  const int endWord =
      lastPart ? blocks * BinaryLayout::kBlockWords : firstWord + params.partBlocks * BinaryLayout::kBlockWords;
  const int firstGroup = firstWord / groupWords, endGroup = lastPart ? groups : endWord / groupWords;
  if (row < args.rows && blockIdx.x == 0) clearRow(params.pool, row);
  for (int group = firstGroup + threadIdx.x; group < endGroup; group += blockDim.x) groupSums[group - firstGroup] = 0;

  float step = 1.0f;  // of whole numbers
  float scale = 0.0f;
  if (args.hiddenScale == nullptr) {
    // Loads wait for memory many at a time: the sweep waits for this kernel.
    constexpr int kLoads = 16;
    float largest = 0.0f;
    bool finite = true;
    for (int64_t begin = threadIdx.x; begin < hiddenSize; begin += kLoads * blockDim.x) {
      float held[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int64_t column = begin + i * blockDim.x;
        held[i] = column < hiddenSize ? source[column] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) addMagnitude(held[i], largest, finite);
    }
    scale = step = quantizationScale(largest, finite);
  } else {
    if (row < args.rows) scale = args.hiddenScale[row];
    __syncthreads();
  }
  if (row < args.rows && blockIdx.x == 0 && threadIdx.x == 0) params.rowScales[row] = scale;

  const int64_t rowInGroup = row % params.rowsPerBlock, firstRow = row - rowInGroup;
  const int place = columnOfRow(static_cast<int>(rowInGroup));
  const auto store = [&](int word, float x) {
    const int q = quantize(x, step);
    const int block = word / BinaryLayout::kBlockWords, t = word % BinaryLayout::kBlockWords;
    if (params.form == HiddenForm::kPlanes) {
      uint32_t mine = 0;
#pragma unroll
      for (int plane = 0; plane < 8; ++plane) {
        const uint32_t bits = __ballot_sync(0xffffffffu, (q >> plane) & 1);
        if (lane == plane) mine = bits;
      }
      const int chunk = block / BinaryLayout::kChunkBlocks;
      const int chunkBlocks = min(BinaryLayout::kChunkBlocks, blocks - chunk * BinaryLayout::kChunkBlocks);
      uint32_t* planes = params.operand + row * BinaryLayout::kLanes * blocks +
                         chunk * BinaryLayout::kLanes * BinaryLayout::kChunkBlocks;
      if (lane < 8) planes[(lane * 4 + t) * chunkBlocks + block % BinaryLayout::kChunkBlocks] = mine;
    } else {
      const int s = lane % 8, i = lane / 8;
      auto* bytes = reinterpret_cast<signed char*>(params.operand) + firstRow * blocks * 128;
      if (params.form == HiddenForm::kBytes) {
        bytes += (place / 8 * blocks + block) * 1024 + (s / 4 * 32 + place % 8 * 4 + t) * 16 + s % 4 * 4 + i;
      } else {
        bytes += (block * params.rowsPerBlock + place) * 128 + (s ^ place % 8) * 16 + t * 4 + i;
      }
      *bytes = static_cast<signed char>(q);
    }
    const int sum = __reduce_add_sync(0xffffffffu, q);
    if (lane == 0 && word < words) atomicAdd(&groupSums[word / groupWords - firstGroup], sum);
  };
  for (int word = firstWord + warp; word < endWord; word += warps)
    store(word, word < words ? source[word * 32 + lane] : 0.0f);
  __syncthreads();
  for (int group = firstGroup + threadIdx.x; group < endGroup; group += blockDim.x) {
    const int64_t at = params.form == HiddenForm::kPlanes
                           ? row * groups + group
                           : firstRow * groups + static_cast<int64_t>(group) * params.rowsPerBlock + place;
    params.bases[at] = kFloatBits - groupSums[group - firstGroup];
  }
}

}  // namespace lm_head
