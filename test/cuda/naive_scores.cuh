// Scores of one row against a whole head by the plainest kernels, to verify what is about to be timed.
#pragma once

#include <cmath>

#include "lm_head_topk_case.cuh"

namespace test {

__device__ inline double weightAt(const LmHeadTopKArgs& args, int64_t id, int64_t column) {
  const int64_t at = id * args.weightRowStride + column;
  if (args.format == HeadFormat::kFloat32) return static_cast<const float*>(args.weight)[at];
  if (args.format == HeadFormat::kFloat16) return __half2float(static_cast<const __half*>(args.weight)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(args.weight)[at]);
}

// A warp an id: scores[id] and bounds[id], the largest error that is allowed.
static __global__ void naiveDenseScores(LmHeadTopKArgs args, int64_t row, double* scores, double* bounds) {
  const int64_t id = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (id >= args.vocabSize) return;
  double sum = 0.0, magnitude = 0.0;
  for (int64_t column = threadIdx.x % 32; column < args.hiddenSize; column += 32) {
    const double product = args.hidden[row * args.hiddenSize + column] * weightAt(args, id, column);
    sum += product;
    magnitude += fabs(product);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    magnitude += __shfl_xor_sync(0xffffffffu, magnitude, offset);
  }
  scores[id] = sum;
  bounds[id] = 3e-5 * magnitude;
}

// A thread an id, the definition step for step; no error is allowed.
static __global__ void naiveBinaryScores(LmHeadTopKArgs args, int64_t row, float rowScale, double* scores,
                                         double* bounds) {
  const int64_t id = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (id >= args.vocabSize) return;
  const lm_head::BinaryLayout layout{args.hiddenSize, args.groupSize};
  const int inTile = static_cast<int>(id % lm_head::BinaryLayout::kTileIds);
  const uint32_t* tile =
      static_cast<const uint32_t*>(args.weight) + id / lm_head::BinaryLayout::kTileIds * layout.tileWords();
  const float* hidden = args.hidden + row * args.hiddenSize;
  float sums[4] = {};
  for (int64_t group = 0; group < args.hiddenSize / args.groupSize; ++group) {
    int dot = 0;
    for (int64_t word = group * args.groupSize / 32; word < (group + 1) * args.groupSize / 32; ++word) {
      const uint32_t bits = tile[layout.wordOffset(inTile, word)];
      for (int bit = 0; bit < 32; ++bit) {
        const int q = static_cast<int>(rintf(__fdiv_rn(hidden[word * 32 + bit], rowScale)));
        dot += bits >> bit & 1 ? q : -q;
      }
    }
    const float scale = __half2float(reinterpret_cast<const __half*>(tile)[layout.scaleOffset(inTile, group)]);
    sums[group % 4] = __fadd_rn(sums[group % 4], __fmul_rn(static_cast<float>(dot), scale));
  }
  scores[id] = __fmul_rn(__fadd_rn(__fadd_rn(sums[0], sums[1]), __fadd_rn(sums[2], sums[3])), rowScale);
  bounds[id] = 0.0;
}

// Scores of one row of a head without bias, and their bounds, on the device. `hidden`: args.hidden on the host.
inline void launchNaiveScores(const LmHeadTopKArgs& args, const std::vector<float>& hidden, int64_t row, double* scores,
                              double* bounds) {
  constexpr int kThreads = 256;
  if (args.format == HeadFormat::kBinary) {
    float largest = 0.0f;
    for (int64_t i = 0; i < args.hiddenSize; ++i)
      largest = std::max(largest, std::fabs(hidden[row * args.hiddenSize + i]));
    naiveBinaryScores<<<static_cast<unsigned>(args.vocabSize / kThreads + 1), kThreads>>>(args, row, largest / 127.0f,
                                                                                          scores, bounds);
  } else {
    naiveDenseScores<<<static_cast<unsigned>(args.vocabSize / (kThreads / 32) + 1), kThreads>>>(args, row, scores,
                                                                                                bounds);
  }
  must(cudaGetLastError(), "naive scores");
}

// The scores of one row of a head without bias, on the host.
class NaiveScores {
 public:
  // `hidden`: args.hidden on the host.
  NaiveScores(const LmHeadTopKArgs& args, const std::vector<float>& hidden, int64_t row) : row_(row) {
    DeviceArray<double> scores(args.vocabSize), bounds(args.vocabSize);
    launchNaiveScores(args, hidden, row, scores.data(), bounds.data());
    scores_ = scores.get();
    bounds_ = bounds.get();
  }

  // values, indices: results of the row, the best k.
  void check(const std::vector<float>& values, const std::vector<int32_t>& indices, int64_t k) const {
    std::vector<bool> returned(scores_.size(), false);
    for (int64_t i = 0; i < k; ++i) {
      const int32_t id = indices[row_ * k + i];
      const bool fresh = id >= 0 && id < static_cast<int64_t>(scores_.size()) && !returned[id];
      expect(fresh, "id " + std::to_string(id) + " is out of range or came before");
      if (!fresh) return;
      returned[id] = true;
      expect(std::fabs(values[row_ * k + i] - scores_[id]) <= bounds_[id] + 1e-7 * std::fabs(scores_[id]),
             "a wrong value for id " + std::to_string(id));
    }
    for (size_t id = 0; id < scores_.size(); ++id) {
      if (!returned[id] && scores_[id] - bounds_[id] > values[row_ * k + k - 1])
        expect(false, "id " + std::to_string(id) + " was missed");
    }
  }

 private:
  int64_t row_;
  std::vector<double> scores_, bounds_;
};

}  // namespace test
