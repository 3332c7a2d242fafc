// A case's results against plain loops on the host: exact where the definition leaves no error, else within its bound.
#pragma once

#include <cmath>
#include <functional>

#include "../../kernels/core/order.h"
#include "lm_head_topk_case.cuh"

namespace test {

struct Score {
  double value;
  double bound;  // largest error that is allowed
};

// The definition of a binary score, step for step.
inline float binaryScore(const LmHeadCase& c, int64_t row, int64_t id) {
  const Shape& s = c.shape;
  const float* h = c.hidden.data() + row * s.hidden;
  float largest = 0.0f;
  bool finite = true;
  for (int64_t i = 0; i < s.hidden; ++i) {
    finite &= std::isfinite(h[i]);
    largest = std::max(largest, std::fabs(h[i]));
  }
  const float scale = finite ? largest / 127.0f : NAN;
  float sums[4] = {};
  for (int64_t group = 0; group < s.hidden / s.groupSize; ++group) {
    int dot = 0;
    for (int64_t i = group * s.groupSize; scale > 0.0f && i < (group + 1) * s.groupSize; ++i) {
      const int q = static_cast<int>(std::min(std::max(std::nearbyint(h[i] / scale), -127.0f), 127.0f));
      dot += (c.words[id * (s.hidden / 32) + i / 32] >> (i % 32)) & 1 ? q : -q;
    }
    volatile float product =
        static_cast<float>(dot) * halfValue(c.halves[id * c.scaleStride() + group], HeadFormat::kFloat16);
    sums[group % 4] = sums[group % 4] + product;
  }
  volatile float score = ((sums[0] + sums[1]) + (sums[2] + sums[3])) * scale;
  return c.bias.empty() ? score : score + c.bias[id];
}

inline Score denseScore(const LmHeadCase& c, int64_t row, int64_t id) {
  double sum = 0.0, magnitude = 0.0;
  for (int64_t column = 0; column < c.shape.hidden; ++column) {
    const double product = static_cast<double>(c.hidden[row * c.shape.hidden + column]) * c.weightAt(id, column);
    sum += product;
    magnitude += std::fabs(product);
  }
  const double bias = c.bias.empty() ? 0.0 : c.bias[id];
  return {sum + bias, 3e-5 * magnitude + 1.2e-7 * std::fabs(sum + bias) + 1e-44};
}

inline std::string at(int64_t row, int64_t i) {
  return " at row " + std::to_string(row) + ", position " + std::to_string(i);
}

// Keys of all ids, best first.
inline std::vector<lm_head::Key> sortedKeys(const std::vector<float>& scores) {
  std::vector<lm_head::Key> keys(scores.size());
  for (size_t id = 0; id < scores.size(); ++id) keys[id] = lm_head::makeKey(scores[id], static_cast<uint32_t>(id));
  std::sort(keys.begin(), keys.end(), std::greater<lm_head::Key>());
  return keys;
}

inline void checkExact(const LmHeadCase& c, int64_t row, const std::vector<lm_head::Key>& keys) {
  for (int64_t i = 0; i < c.shape.k; ++i) {
    const int32_t got = c.indices[row * c.shape.k + i], id = static_cast<int32_t>(lm_head::keyId(keys[i]));
    const float value = c.values[row * c.shape.k + i];
    expect(got == id, "id " + std::to_string(got) + ", expected " + std::to_string(id) + at(row, i));
    expect(lm_head::orderKey(value) == lm_head::keyOrder(keys[i]),
           "value " + std::to_string(value) + ", expected " + std::to_string(lm_head::keyValue(keys[i])) + at(row, i));
  }
}

inline void checkExact(const LmHeadCase& c, int64_t row, const std::vector<float>& scores) {
  checkExact(c, row, sortedKeys(scores));
}

// Within 1e-5 of float64, and of what the bounds of the scores allow.
inline void checkLogSumExp(const LmHeadCase& c, int64_t row, const std::vector<Score>& scores) {
  if (!c.shape.logSumExp) return;
  double largest = -INFINITY, bound = 0.0, sum = 0.0;
  for (const Score& score : scores) {
    largest = std::max(largest, score.value);
    bound = std::max(bound, score.bound);
  }
  for (const Score& score : scores) sum += std::exp(score.value - largest);
  const double expected = largest + std::log(sum);
  expect(std::fabs(c.logSumExp[row] - expected) <=
             1e-5 * std::max(1.0, std::fabs(expected)) + (c.shape.integers ? 0.0 : bound),
         "logSumExp " + std::to_string(c.logSumExp[row]) + ", expected " + std::to_string(expected) + " in row " +
             std::to_string(row));
}

inline void checkDense(const LmHeadCase& c, int64_t row) {
  std::vector<Score> scores(c.shape.vocab);
  forAll(c.shape.vocab, [&](int64_t id) { scores[id] = denseScore(c, row, id); });
  checkLogSumExp(c, row, scores);
  if (c.shape.integers) {
    std::vector<float> exact;
    for (const Score& score : scores) exact.push_back(static_cast<float>(score.value));
    checkExact(c, row, exact);
    return;
  }
  std::vector<bool> returned(c.shape.vocab, false);
  for (int64_t i = 0; i < c.shape.k; ++i) {
    const int32_t id = c.indices[row * c.shape.k + i];
    const float value = c.values[row * c.shape.k + i];
    const bool fresh = id >= 0 && id < c.shape.vocab && !returned[id];
    expect(fresh, "id " + std::to_string(id) + " is out of range or came before" + at(row, i));
    if (!fresh) return;
    returned[id] = true;
    expect(std::fabs(value - scores[id].value) <= scores[id].bound,
           "value " + std::to_string(value) + ", expected " + std::to_string(scores[id].value) + at(row, i));
    if (i > 0) {
      const int64_t before = row * c.shape.k + i - 1;
      expect(lm_head::makeKey(c.values[before], c.indices[before]) > lm_head::makeKey(value, id),
             "not sorted" + at(row, i));
    }
  }
  const float last = c.values[row * c.shape.k + c.shape.k - 1];
  for (int64_t id = 0; id < c.shape.vocab; ++id) {
    expect(returned[id] || scores[id].value - scores[id].bound <= last,
           "id " + std::to_string(id) + " was missed in row " + std::to_string(row));
  }
}

inline void checkRow(const LmHeadCase& c, int64_t row) {
  if (c.shape.format != HeadFormat::kBinary) return checkDense(c, row);
  std::vector<float> scores(c.shape.vocab);
  forAll(c.shape.vocab, [&](int64_t id) { scores[id] = binaryScore(c, row, id); });
  if (std::isfinite(scores[0])) {
    std::vector<Score> exact;
    for (const float score : scores) exact.push_back({score, 0.0});
    checkLogSumExp(c, row, exact);
  }
  checkExact(c, row, scores);
}

// `checkedRows`: the plain loops are slow, so of many rows only some are checked, the first and last among them.
inline void runCase(Shape shape, int64_t checkedRows = 3) {
  shape.logSumExp = (shape.rows + shape.k + shape.hidden) % 2 == 1;
  current = shape.name();
  LmHeadCase c(shape);
  c.upload();
  c.run();
  const int64_t step = std::max<int64_t>(1, (shape.rows - 1) / std::max<int64_t>(1, checkedRows - 1));
  for (int64_t row = 0; row < shape.rows; row += step) checkRow(c, row);
}

}  // namespace test
