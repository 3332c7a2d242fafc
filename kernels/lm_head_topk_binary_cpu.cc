// Binary scores on the CPU: the bit planes of quantized hidden, and + popcount, 64 columns at a time. Bit for bit the
// arithmetic of the plain reference; this file is compiled without fused multiply-adds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu_math.h"
#include "lm_head_topk_scores.h"

namespace lm_head {
namespace {

#if defined(__x86_64__)
#define FOR_EACH_CPU __attribute__((target_clones("popcnt", "default")))
#else
#define FOR_EACH_CPU
#endif

struct QuantizedRow {
  float scale;
  std::vector<uint32_t> planes;    // [words, 8]: the planes of a word side by side
  std::vector<int32_t> groupSums;  // of q
};

// Sum of q over the columns whose bit is set. Plane 7 is the sign of two's complement and counts negative.
FOR_EACH_CPU int32_t sumWhereSet(const uint32_t* bits, const uint32_t* planes, int64_t words) {
  int32_t counts[8] = {};
  for (int64_t word = 0; word < words; ++word) {
    for (int plane = 0; plane < 8; ++plane) counts[plane] += __builtin_popcount(bits[word] & planes[word * 8 + plane]);
  }
  int32_t sum = -128 * counts[7];
  for (int plane = 0; plane < 7; ++plane) sum += counts[plane] * (1 << plane);
  return sum;
}

class BinaryCpuScorer final : public CpuScorer {
 public:
  explicit BinaryCpuScorer(const LmHeadTopKArgs& args) : args_(args), rows_(args.rows) {
    for (int64_t row = 0; row < args.rows; ++row) quantize(args.hidden + row * args.hiddenSize, rows_[row]);
  }

  int64_t scratchSize() const override { return 0; }

  void score(int64_t firstId, int ids, int64_t firstRow, int rows, float*, float* scores) const override {
    const int64_t groups = args_.hiddenSize / args_.groupSize, groupWords = args_.groupSize / 32;
    for (int i = 0; i < ids; ++i) {
      const int64_t id = firstId + i;
      const uint32_t* bits = static_cast<const uint32_t*>(args_.weight) + id * args_.weightRowStride;
      const uint16_t* scales = args_.scales + id * args_.scaleRowStride;
      for (int r = 0; r < rows; ++r) {
        const QuantizedRow& row = rows_[firstRow + r];
        float sums[4] = {};
        for (int64_t group = 0; group < groups; ++group) {
          const int64_t word = group * groupWords;
          const int32_t positive = sumWhereSet(bits + word, row.planes.data() + word * 8, groupWords);
          const int32_t dot = 2 * positive - row.groupSums[group];
          sums[group % 4] += static_cast<float>(dot) * widenFloat16(scales[group]);
        }
        const float score = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * row.scale;
        scores[i * rows + r] = args_.bias == nullptr ? score : score + args_.bias[id];
      }
    }
  }

 private:
  void quantize(const float* hidden, QuantizedRow& row) const {
    float largest = 0.0f;
    bool finite = true;
    for (int64_t i = 0; i < args_.hiddenSize; ++i) {
      finite &= std::isfinite(hidden[i]);
      largest = std::max(largest, std::fabs(hidden[i]));
    }
    row.scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
    row.planes.assign(args_.hiddenSize / 32 * 8, 0);
    row.groupSums.assign(args_.hiddenSize / args_.groupSize, 0);
    // A scale of 0, also by underflow, makes every score 0 whatever q is.
    if (!(row.scale > 0.0f)) return;
    for (int64_t i = 0; i < args_.hiddenSize; ++i) {
      const int q = static_cast<int>(std::clamp(std::nearbyint(hidden[i] / row.scale), -127.0f, 127.0f));
      row.groupSums[i / args_.groupSize] += q;
      for (int plane = 0; plane < 8; ++plane) {
        row.planes[i / 32 * 8 + plane] |= static_cast<uint32_t>((q >> plane) & 1) << (i % 32);
      }
    }
  }

  LmHeadTopKArgs args_;
  std::vector<QuantizedRow> rows_;
};

}  // namespace

std::unique_ptr<CpuScorer> createBinaryCpuScorer(const LmHeadTopKArgs& args) {
  return std::make_unique<BinaryCpuScorer>(args);
}

}  // namespace lm_head
