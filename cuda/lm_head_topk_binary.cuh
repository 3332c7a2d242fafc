// Binary heads on 1-bit tensor cores, with no weight ever expanded. Hidden is quantized to int8 and cut into its 8 bit
// planes; and + popcount of a weight row with a plane, weighted by the plane's power of two, is the sum of q where the
// weight is +1. The arithmetic is that of the plain reference, step for step: exact integer group sums, then single
// fp32 roundings.
#pragma once

#include <cuda_fp16.h>

#include "lm_head_topk_scan.cuh"

namespace lm_head {

// Quantizes a row to q = round(h / scale), scale = absmax / 127, in two's complement; writes planes [rows, 8, words],
// the sum of q of each group [rows, groups] and the scale [rows]. A block a row. Also empties the row's pool. A row
// with NaN or infinity gets scale NaN, for IEEE arithmetic would make all of its scores NaN.
__global__ void quantizeHiddenKernel(const float* hidden, int64_t hiddenSize, int64_t groupSize, uint32_t* planes,
                                     int* groupSums, float* rowScales, RowPool pool) {
  allowNextKernel();
  const int64_t row = blockIdx.x, words = hiddenSize / 32, groups = hiddenSize / groupSize;
  const float* source = hidden + row * hiddenSize;
  int* sums = groupSums + row * groups;
  clearRow(pool, row);
  float largest = 0.0f;
  int finite = 1;
  for (int64_t i = threadIdx.x; i < hiddenSize; i += blockDim.x) {
    const float magnitude = fabsf(source[i]);
    finite &= magnitude <= 0x1.fffffep127f;
    largest = fmaxf(largest, magnitude);
  }
  for (int64_t i = threadIdx.x; i < groups; i += blockDim.x) sums[i] = 0;
  for (int offset = 16; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  __shared__ float warpLargest[32];
  if (threadIdx.x % 32 == 0) warpLargest[threadIdx.x / 32] = largest;
  finite = __syncthreads_and(finite);
  for (int warp = 0; warp < blockDim.x / 32; ++warp) largest = fmaxf(largest, warpLargest[warp]);

  const float scale = finite ? __fdiv_rn(largest, 127.0f) : NAN;
  if (threadIdx.x == 0) rowScales[row] = scale;
  const int lane = threadIdx.x % 32;
  for (int64_t word = threadIdx.x / 32; word < words; word += blockDim.x / 32) {
    int q = 0;
    // A scale of 0, also by underflow, makes every score 0 whatever q is.
    if (scale > 0.0f)
      q = static_cast<int>(fminf(fmaxf(rintf(__fdiv_rn(source[word * 32 + lane], scale)), -127.0f), 127.0f));
    uint32_t mine = 0;
    for (int plane = 0; plane < 8; ++plane) {
      const uint32_t bits = __ballot_sync(0xffffffffu, (q >> plane) & 1);
      if (lane == plane) mine = bits;
    }
    if (lane < 8) planes[(row * 8 + lane) * words + word] = mine;
    int sum = q;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0) atomicAdd(&sums[word * 32 / groupSize], sum);
  }
}

struct BinaryScorerParams {
  const uint32_t* planes;  // [rows, 8, words]
  const int* groupSums;    // [rows, groups]
  const float* rowScales;  // [rows]
};

// counts += popcount(a & b): a is 16 weight rows x 128 bits, b is 128 bits x 8 planes.
__device__ inline void countAnd(int (&counts)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(counts[0]), "+r"(counts[1]), "+r"(counts[2]), "+r"(counts[3])
               : "r"(a0), "r"(a1), "r"(b));
}

// 8 warps, each 16 ids of the tile. Lane (g, t) holds bits of ids g and g+8, counts for planes 2t and 2t+1, and, once a
// quad has exchanged its counts, the groups whose index is t mod 4: the four running sums of the definition are the
// quad's lanes.
template <int kRows>
class BinaryScorer {
 public:
  using Params = BinaryScorerParams;
  static constexpr int kThreads = 256, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 128;

  // Planes, group sums and scale of each row.
  static __host__ __device__ size_t sharedBytes(int64_t hiddenSize, int64_t groupSize) {
    const int64_t bytes = kRows * (8 * planePitch(hiddenSize / 32) + hiddenSize / groupSize + 1) * 4;
    return (bytes + 15) / 16 * 16;
  }
  __device__ size_t sharedBytes() const { return sharedBytes(args_.hiddenSize, args_.groupSize); }

  __device__ BinaryScorer(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
                          int rows)
      : args_(scan.args), rows_(rows) {
    words_ = static_cast<int>(args_.hiddenSize / 32);
    groups_ = static_cast<int>(args_.hiddenSize / args_.groupSize);
    groupWords_ = static_cast<int>(args_.groupSize / 32);
    pitch_ = planePitch(words_);
    planes_ = reinterpret_cast<uint32_t*>(shared);
    groupSums_ = reinterpret_cast<int*>(planes_ + kRows * 8 * pitch_);
    rowScales_ = reinterpret_cast<float*>(groupSums_ + kRows * groups_);
    for (int i = threadIdx.x; i < kRows * 8 * pitch_; i += kThreads) {
      const int plane = i / pitch_, word = i % pitch_;
      planes_[i] = plane / 8 < rows && word < words_ ? params.planes[(rowBegin * 8 + plane) * words_ + word] : 0;
    }
    for (int i = threadIdx.x; i < kRows * groups_; i += kThreads) {
      groupSums_[i] = i / groups_ < rows ? params.groupSums[rowBegin * groups_ + i] : 0;
    }
    for (int i = threadIdx.x; i < rows; i += kThreads) rowScales_[i] = params.rowScales[rowBegin + i];
    __syncthreads();
  }

  __device__ bool hasWork() const { return true; }
  __device__ void assist(const Tiling&) {}
  __device__ void startWork() {}
  __device__ bool serves(int) const { return true; }

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int64_t id = tile.firstId + threadIdx.x / 32 * 16 + g;
    // The last id is read again in place of those behind it; they are never offered.
    const int64_t ids[2] = {min(id, args_.vocabSize - 1), min(id + 8, args_.vocabSize - 1)};
    const uint32_t* weights[2];
    const uint16_t* scales[2];
    for (int half = 0; half < 2; ++half) {
      weights[half] = static_cast<const uint32_t*>(args_.weight) + ids[half] * words_;
      scales[half] = args_.scales + ids[half] * args_.scaleRowStride;
    }
    float sums[kRows][2] = {};
    for (int firstGroup = 0; firstGroup < groups_; firstGroup += 4) {
      int counts[kRows][4][4] = {};  // of four groups: ids g and g+8, planes 2t and 2t+1
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (firstGroup + j >= groups_) continue;
        const int begin = (firstGroup + j) * groupWords_;
        for (int offset = t; offset - t < groupWords_; offset += 4) {
          const bool real = offset < groupWords_;
          const uint32_t lower = real ? __ldg(weights[0] + begin + offset) : 0;
          const uint32_t upper = real ? __ldg(weights[1] + begin + offset) : 0;
#pragma unroll
          for (int row = 0; row < kRows; ++row) {
            countAnd(counts[row][j], lower, upper, real ? planes_[(row * 8 + g) * pitch_ + begin + offset] : 0);
          }
        }
      }
      const int group = firstGroup + t;
      const bool real = group < groups_;
      float groupScales[2];
      for (int half = 0; half < 2; ++half)
        groupScales[half] = real ? __half2float(__ushort_as_half(__ldg(scales[half] + group))) : 0.0f;
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int weighted[4];
#pragma unroll
          for (int j = 0; j < 4; ++j) weighted[j] = weigh(counts[row][j][2 * half], counts[row][j][2 * half + 1], t);
          const int positive = scatterSum(weighted, t);
          if (real) {
            const int dot = 2 * positive - groupSums_[row * groups_ + group];
            sums[row][half] = __fadd_rn(sums[row][half], __fmul_rn(static_cast<float>(dot), groupScales[half]));
          }
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float scores[2] = {-INFINITY, -INFINITY};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = sums[row][half];
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
        sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
        if (row % 4 != t || row >= rows_ || id + 8 * half >= args_.vocabSize) continue;
        scores[half] = finishScore(__fmul_rn(sum, rowScales_[row]), args_.bias, id + 8 * half);
        lists.offer(row, scores[half], static_cast<uint32_t>(id + 8 * half));
      }
      if (!logSums.wanted()) continue;
      const LogSum logSum = sumOfEightLanes(scores[0], scores[1]);
      if (lane == row % 4 && row < rows_) logSums.add(row, logSum);
    }
  }

 private:
  // 4 mod 32 words: the 8 planes that a warp reads at once lie in different banks.
  static __host__ __device__ int planePitch(int64_t words) { return static_cast<int>((words + 31) / 32 * 32 + 4); }

  // Planes 2t and 2t+1 of two's complement: the last one counts negative.
  static __device__ int weigh(int even, int odd, int t) {
    const int low = even + 2 * (t == 3 ? -odd : odd);
    return low * (1 << (2 * t));
  }

  // Lane t of each quad gets the quad's sum of values[t].
  static __device__ int scatterSum(const int (&values)[4], int t) {
    const bool high = t & 2, odd = t & 1;
    const int first = (high ? values[2] : values[0]) + __shfl_xor_sync(0xffffffffu, high ? values[0] : values[2], 2);
    const int second = (high ? values[3] : values[1]) + __shfl_xor_sync(0xffffffffu, high ? values[1] : values[3], 2);
    return (odd ? second : first) + __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
  }

  const LmHeadTopKArgs& args_;
  int rows_;
  int words_, groups_, groupWords_, pitch_;
  uint32_t* planes_;
  int* groupSums_;
  float* rowScales_;
};

}  // namespace lm_head
