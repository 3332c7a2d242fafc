#include "quantize_activations_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu_math.h"
#include "parallel.h"

namespace lm_head {

float quantizeRow(const float* hidden, int64_t hiddenSize, int32_t* q) {
  float largest = 0.0f;
  bool finite = true;
  for (int64_t i = 0; i < hiddenSize; ++i) {
    finite &= std::isfinite(hidden[i]);
    largest = std::max(largest, std::fabs(hidden[i]));
  }
  const float scale = finite ? largest / 127.0f : std::numeric_limits<float>::quiet_NaN();
  if (!(scale > 0.0f)) {  // 0, also by underflow, or NaN
    std::fill(q, q + hiddenSize, 0);
    return scale;
  }
  for (int64_t i = 0; i < hiddenSize; ++i) {
    q[i] = static_cast<int32_t>(std::clamp(std::nearbyint(hidden[i] / scale), -127.0f, 127.0f));
  }
  return scale;
}

void quantizeActivationsCpu(const QuantizeActivationsArgs& args) {
  parallelFor(threadsFor(args.rows * args.hiddenSize), args.rows, [&](int, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * args.hiddenSize;
      args.scale[row] = quantizeRow(args.hidden + first, args.hiddenSize, args.q + first);
    }
  });
}

}  // namespace lm_head
