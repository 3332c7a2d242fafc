// float32 heads, and the hidden rows of 16-bit heads that tensor cores cannot serve exactly (see SplitRow): plain fp32
// arithmetic. A dot product is one fixed chain: lane l of a warp takes columns 128c + 4l .. +3 of every chunk c, in
// order.
#pragma once

#include "lm_head_topk_scan.cuh"
#include "lm_head_topk_split.cuh"

namespace lm_head {

// Loads four neighbouring columns of an id; zeros behind hiddenSize.
struct LoadFloatAligned {  // hiddenSize and row stride multiples of 4, 16-byte aligned
  static __device__ float4 load(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
    if (column >= args.hiddenSize) return {};
    return __ldg(
        reinterpret_cast<const float4*>(static_cast<const float*>(args.weight) + id * args.weightRowStride + column));
  }
};

struct LoadFloatStrided {
  static __device__ float4 load(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
    const float* source =
        static_cast<const float*>(args.weight) + id * args.weightRowStride + column * args.weightColumnStride;
    const int64_t stride = args.weightColumnStride, left = args.hiddenSize - column;
    return {left > 0 ? __ldg(source) : 0.0f, left > 1 ? __ldg(source + stride) : 0.0f,
            left > 2 ? __ldg(source + 2 * stride) : 0.0f, left > 3 ? __ldg(source + 3 * stride) : 0.0f};
  }
};

template <class Half>
struct LoadHalf {
  static __device__ float4 load(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
    if (column >= args.weightRowStride) return {};
    const uint2 bits = __ldg(
        reinterpret_cast<const uint2*>(static_cast<const Half*>(args.weight) + id * args.weightRowStride + column));
    const Half* four = reinterpret_cast<const Half*>(&bits);
    using Traits = SplitTraits<Half>;
    return {Traits::widen(four[0]), Traits::widen(four[1]), Traits::widen(four[2]), Traits::widen(four[3])};
  }
};

struct PlainScorerParams {
  // Null: serve every row. Else only those whose entry says `plain`.
  const SplitRow* splitRows;
};

// 16 warps; a warp takes kIds ids at a time, so that hidden, in shared memory, is read once for all of them.
template <class Load, int kRows>
class PlainScorer {
 public:
  using Params = PlainScorerParams;
  static constexpr bool kStartsEarly = false;
  static constexpr int kThreads = 512, kWorkers = kThreads, kTileVocab = 128, kSmallTileVocab = 128;
  static constexpr int kIds = 4;
  static constexpr int kLaneColumns = 128;

  // The block's hidden rows, padded with zeros to whole chunks, and a flag a row.
  static __host__ __device__ size_t sharedBytes(int64_t hiddenSize) {
    return static_cast<size_t>(kRows) * (paddedSize(hiddenSize) * sizeof(float) + 16);
  }
  __device__ size_t sharedBytes() const { return sharedBytes(args_.hiddenSize); }

  __device__ PlainScorer(const ScanParams& scan, const Params& params, unsigned char* shared, int64_t rowBegin,
                         int rows)
      : args_(scan.args),
        hidden_(reinterpret_cast<float*>(shared)),
        rows_(rows),
        padded_(paddedSize(args_.hiddenSize)) {
    served_ = reinterpret_cast<int*>(hidden_ + kRows * padded_);
    int served = 0;
    if (threadIdx.x < rows) {
      served = params.splitRows == nullptr || params.splitRows[rowBegin + threadIdx.x].plain;
      served_[threadIdx.x] = served;
    }
    hasWork_ = __syncthreads_or(served);
    if (!hasWork_) return;
    for (int64_t i = threadIdx.x; i < kRows * padded_; i += kThreads) {
      const int64_t row = i / padded_, column = i % padded_;
      const bool real = row < rows && column < args_.hiddenSize;
      hidden_[i] = real ? args_.hidden[(rowBegin + row) * args_.hiddenSize + column] : 0.0f;
    }
    __syncthreads();
  }

  __device__ bool hasWork() const { return hasWork_; }
  __device__ void assist(const Tiling&) {}
  __device__ void startWork() {}
  __device__ bool serves(int row) const { return served_[row]; }

  __device__ void scoreTile(const Tile& tile, TopKLists<kWorkers>& lists, LogSums& logSums) {
    const int lane = threadIdx.x % 32;
    constexpr int kIdsPerPass = kThreads / 32 * kIds;
    for (int pass = 0; pass < kTileVocab / kIdsPerPass; ++pass) {
      const int64_t firstId = tile.firstId + pass * kIdsPerPass + threadIdx.x / 32 * kIds;
      if (firstId >= args_.vocabSize) break;
      float sums[kIds][kRows] = {};
#pragma unroll 2
      for (int64_t column = 4 * lane; column < padded_; column += kLaneColumns) {
        float4 weights[kIds];
#pragma unroll
        for (int i = 0; i < kIds; ++i) {
          // The last ids of the vocabulary are read again in place of those behind it.
          weights[i] = Load::load(args_, min(firstId + i, args_.vocabSize - 1), column);
        }
#pragma unroll
        for (int row = 0; row < kRows; ++row) {
          const float4 hidden = *reinterpret_cast<const float4*>(hidden_ + row * padded_ + column);
#pragma unroll
          for (int i = 0; i < kIds; ++i) {
            float product = weights[i].x * hidden.x;
            product = fmaf(weights[i].y, hidden.y, product);
            product = fmaf(weights[i].z, hidden.z, product);
            product = fmaf(weights[i].w, hidden.w, product);
            sums[i][row] += product;
          }
        }
      }
#pragma unroll
      for (int row = 0; row < kRows; ++row) {
        LogSum logSum = LogSum::empty();
#pragma unroll
        for (int i = 0; i < kIds; ++i) {
          float sum = sums[i][row];
          for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
          if (lane != row || row >= rows_ || firstId + i >= args_.vocabSize || !served_[row]) continue;
          const float score = finishScore(sum, args_.bias, firstId + i);
          lists.offer(row, score, static_cast<uint32_t>(firstId + i));
          if (logSums.wanted()) logSum = logSum + LogSum::of(score);
        }
        if (logSums.wanted() && lane == row && row < rows_) logSums.add(row, logSum);
      }
    }
  }

 private:
  static __host__ __device__ int64_t paddedSize(int64_t hiddenSize) {
    return (hiddenSize + kLaneColumns - 1) / kLaneColumns * kLaneColumns;
  }

  const LmHeadTopKArgs& args_;
  float* hidden_;
  int* served_;
  int rows_;
  int64_t padded_;
  int hasWork_;
};

}  // namespace lm_head
