// float32 heads on compute capability 9.0, on tensor cores and without rounding weights: a weight is the sum of two
// tf32 numbers, as every hidden element is (see SplitRow), and all four products are summed. Only magnitudes that tf32
// cannot split well (NaN, infinities, below 2^-90) need plain arithmetic: ids that hold such a weight are noticed and
// scored again.
#pragma once

#include "common/hopper_products.cuh"
#include "lm_head_topk_hopper.cuh"

namespace lm_head {

// Two warpgroups, each 64 ids of the tile against kColumns columns of parts (two a row), and one warp that copies.
template <int kColumns, int kStages>
class HopperFloatScorer {
 public:
  using Params = HopperScorerParams;
  static constexpr int kWorkers = 256, kThreads = kWorkers + 32, kTileVocab = 128, kSmallTileVocab = 128;
  static constexpr int kRows = kColumns / 2;
  static constexpr int kChunk = 32;
  // Columns in the tensor core's own sum, which truncates, before a plain fp32 addition.
  static constexpr int kFlush = 128;
  using Ring = ChunkRing<kChunk, kTileVocab, kSmallTileVocab, kColumns, kStages, kWorkers>;
  static constexpr size_t kSharedBytes = (Ring::kSharedBytes + kRows * sizeof(SplitRow) + 15) / 16 * 16;

  __device__ size_t sharedBytes() const { return kSharedBytes; }

  __device__ HopperFloatScorer(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
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
    if (threadIdx.x != kWorkers) return;
    ring_.fill(&params_.weight, &params_.parts, 2 * rowBegin_, tiling, chunks_);
  }

  __device__ void startWork() {}

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float products[kColumns / 2];
    float sums[kColumns / 8][2] = {};
    uint32_t smallest[2] = {~0u, ~0u},
             largest[2] = {0, 0};  // of this lane's weights of ids g and g+8, twice their bits
    for (int begin = 0; begin < chunks_; begin += kFlush / kChunk) {
      const int end = min(begin + kFlush / kChunk, chunks_);
      for (int chunk = begin; chunk < end; ++chunk) {
        multiply(products, chunk == begin, smallest, largest);
      }
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i) {
        sums[i][0] += joinParts<float>(products[4 * i], products[4 * i + 1]);
        sums[i][1] += joinParts<float>(products[4 * i + 2], products[4 * i + 3]);
      }
    }
    const int64_t id = tile.firstId + threadIdx.x / 32 * 16 + g;
    const bool odd[2] = {isOdd(smallest[0], largest[0]), isOdd(smallest[1], largest[1])};
    // Ids behind the vocabulary and odd ones are not offered here: an id at its end is what offerPair leaves out.
    const int64_t lowerId = odd[0] ? args_.vocabSize : id, upperId = odd[1] ? args_.vocabSize : id + 8;
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      offerPair(lists, args_, splitRows_, 4 * i + t, rows_, lowerId, upperId, sums[i]);
    }
    if (logSums.wanted()) logSums.add(sums);
    for (int half = 0; half < 2; ++half) {
      uint32_t lanes = __ballot_sync(0xffffffffu, odd[half] && id + 8 * half < args_.vocabSize && t == 0);
      for (; lanes != 0; lanes &= lanes - 1) {
        scoreAgain(tile.firstId + threadIdx.x / 32 * 16 + 8 * half + __ffs(lanes) / 4, lists, logSums);
      }
    }
  }

 private:
  // Adds the products of the next chunk.
  __device__ void multiply(float (&products)[kColumns / 2], bool anew, uint32_t (&smallest)[2],
                           uint32_t (&largest)[2]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const unsigned char* memory = ring_.next();
    const uint64_t parts = matrixDescriptor(memory + Ring::kWeightBytes);
    uint32_t high[4][4], low[4][4];  // of 4 products: ids g and g+8 at term t, then at term t+4
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const unsigned char* row = memory + (threadIdx.x / 32 * 16 + 8 * upper + g) * 128;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        // The copy engine has stored 16-byte piece p of row r at p ^ (r % 8).
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
    ring_.release(ring_.current());
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
  static __device__ bool isOdd(uint32_t smallest, uint32_t largest) {
    constexpr uint32_t kLeast = (127 - 90) << 24, kInfinite = 0xffu << 24;
    const bool odd = smallest < kLeast - 1 || largest >= kInfinite;
    return (__ballot_sync(0xffffffffu, odd) >> (threadIdx.x % 32 & ~3) & 15) != 0;
  }

  // A warp scores one id for all rows in plain arithmetic.
  __device__ void scoreAgain(int64_t id, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int lane = threadIdx.x % 32;
    const float* weight = static_cast<const float*>(args_.weight) + id * args_.weightRowStride;
    for (int row = 0; row < rows_; ++row) {
      if (splitRows_[row].plain) continue;
      const float* hidden = args_.hidden + (rowBegin_ + row) * args_.hiddenSize;
      float sum = 0.0f;
      for (int64_t column = lane; column < args_.hiddenSize; column += 32)
        sum = fmaf(weight[column], hidden[column], sum);
      for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
      if (lane != 0) continue;
      const float score = finishScore(sum, args_.bias, id);
      lists.offer(row, score, static_cast<uint32_t>(id));
      if (logSums.wanted()) logSums.add(row, LogSum::of(score));
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
