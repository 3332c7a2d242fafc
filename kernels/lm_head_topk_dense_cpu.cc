// Dense scores on the CPU: weights are widened to float32 tile by tile, then multiplied in fp32. A dot product is one
// fixed chain, set by hiddenSize alone: 16 lanes, summed over kChunk columns at a time.
#include <algorithm>

#include "cpu_math.h"
#include "lm_head_topk_scores.h"

namespace lm_head {
namespace {

constexpr int kLanes = 16;
constexpr int kChunk = 512;

typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

#if defined(__x86_64__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

// products[id * productStride + row] = tile row id . hidden row; all rows padded with zeros to a multiple of kLanes.
FOR_EACH_CPU void multiply(const float* tile, int ids, const float* hidden, int rows, int64_t paddedSize,
                           float* products, int productStride) {
  constexpr int kIds = 4;
  for (int first = 0; first < ids; first += kIds) {
    for (int row = 0; row < rows; ++row) {
      const float* h = hidden + row * paddedSize;
      Lanes sums[kIds] = {};
      for (int64_t begin = 0; begin < paddedSize; begin += kChunk) {
        const int64_t end = std::min<int64_t>(begin + kChunk, paddedSize);
        Lanes chunk[kIds] = {};
        for (int64_t column = begin; column < end; column += kLanes) {
          const Lanes hiddenLanes = *reinterpret_cast<const Lanes*>(h + column);
          for (int i = 0; i < kIds; ++i) {
            chunk[i] += *reinterpret_cast<const Lanes*>(tile + (first + i) * paddedSize + column) * hiddenLanes;
          }
        }
        for (int i = 0; i < kIds; ++i) sums[i] += chunk[i];
      }
      for (int i = 0; i < kIds && first + i < ids; ++i) {
        float sum = 0.0f;
        for (int lane = 0; lane < kLanes; ++lane) sum += sums[i][lane];
        products[(first + i) * productStride + row] = sum;
      }
    }
  }
}

FOR_EACH_CPU void widenRowBfloat16(const uint16_t* from, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = widenBfloat16(from[i]);
}

FOR_EACH_CPU void widenRowFloat16(const uint16_t* from, int64_t size, float* to) {
  for (int64_t i = 0; i < size; ++i) to[i] = widenFloat16(from[i]);
}

class DenseCpuScorer final : public CpuScorer {
 public:
  explicit DenseCpuScorer(const LmHeadTopKArgs& args)
      : args_(args),
        paddedSize_((args.hiddenSize + kLanes - 1) / kLanes * kLanes),
        hidden_(new float[args.rows * paddedSize_]()) {
    for (int64_t row = 0; row < args.rows; ++row) {
      std::copy_n(args.hidden + row * args.hiddenSize, args.hiddenSize, hidden_.get() + row * paddedSize_);
    }
  }

  int64_t scratchSize() const override { return kCpuTileVocab * paddedSize_; }

  void score(int64_t firstId, int ids, int64_t firstRow, int rows, float* scratch, float* scores) const override {
    loadTile(firstId, ids, scratch);
    multiply(scratch, ids, hidden_.get() + firstRow * paddedSize_, rows, paddedSize_, scores, rows);
    if (args_.bias == nullptr) return;
    for (int i = 0; i < ids; ++i) {
      for (int row = 0; row < rows; ++row) scores[i * rows + row] += args_.bias[firstId + i];
    }
  }

 private:
  // Ids [firstId, firstId + ids) as float32, padded with zeros.
  void loadTile(int64_t firstId, int ids, float* tile) const {
    const int64_t size = args_.hiddenSize;
    if (args_.format == HeadFormat::kFloat32 && args_.weightColumnStride != 1) {
      const float* weight = static_cast<const float*>(args_.weight) + firstId * args_.weightRowStride;
      for (int64_t column = 0; column < size; ++column) {
        const float* source = weight + column * args_.weightColumnStride;
        for (int i = 0; i < ids; ++i) tile[i * paddedSize_ + column] = source[i * args_.weightRowStride];
      }
    } else {
      for (int i = 0; i < ids; ++i) loadRow((firstId + i) * args_.weightRowStride, tile + i * paddedSize_);
    }
    for (int i = 0; i < kCpuTileVocab; ++i) {
      float* row = tile + i * paddedSize_;
      std::fill(row + (i < ids ? size : 0), row + paddedSize_, 0.0f);
    }
  }

  void loadRow(int64_t offset, float* row) const {
    if (args_.format == HeadFormat::kFloat32) {
      std::copy_n(static_cast<const float*>(args_.weight) + offset, args_.hiddenSize, row);
    } else if (args_.format == HeadFormat::kBfloat16) {
      widenRowBfloat16(static_cast<const uint16_t*>(args_.weight) + offset, args_.hiddenSize, row);
    } else {
      widenRowFloat16(static_cast<const uint16_t*>(args_.weight) + offset, args_.hiddenSize, row);
    }
  }

  LmHeadTopKArgs args_;
  int64_t paddedSize_;
  std::unique_ptr<float[]> hidden_;
};

}  // namespace

std::unique_ptr<CpuScorer> createDenseCpuScorer(const LmHeadTopKArgs& args) {
  return std::make_unique<DenseCpuScorer>(args);
}

}  // namespace lm_head
