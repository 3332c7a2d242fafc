#include "binarize_head_cpu.h"

#include <cmath>

#include "cpu_math.h"
#include "parallel.h"

namespace lm_head {

void binarizeHeadCpu(const BinarizeHeadArgs& args) {
  parallelFor(threadsFor(args.rows * args.columns), args.rows, [&](int, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    for (int64_t row = begin; row < end; ++row) {
      const float* weight = args.weight + row * args.columns;
      for (int64_t word = 0; word < args.columns / 32; ++word) {
        uint32_t bits = 0;
        for (int bit = 0; bit < 32; ++bit) bits |= static_cast<uint32_t>(!(weight[word * 32 + bit] < 0.0f)) << bit;
        args.bits[row * (args.columns / 32) + word] = bits;
      }
      const int64_t groups = args.columns / args.groupSize;
      for (int64_t group = 0; group < groups; ++group) {
        double sum = 0.0;
        for (int64_t i = 0; i < args.groupSize; ++i) sum += std::fabs(weight[group * args.groupSize + i]);
        args.scales[row * groups + group] = static_cast<float>(sum / static_cast<double>(args.groupSize));
      }
    }
  });
}

}  // namespace lm_head
