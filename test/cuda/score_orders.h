// Orders in which scores can come, and what the best of them are. bench/peers/score_orders.py makes the same ones.
//
// The scores are injected: all columns of hidden but the first are zero, so that a score is the first column's weight
// times a power of two, while every other weight is a random number and has to be read all the same.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "../../kernels/core/lm_head_topk_args.h"
#include "../../kernels/core/order.h"

namespace test {

enum class ScoreOrder { kAscending, kDescending, kEqual, kClustered, kTwoValues, kMostlyMinusInf };

struct NamedOrder {
  ScoreOrder order;
  const char* name;
};

constexpr NamedOrder kScoreOrders[] = {
    {ScoreOrder::kAscending, "ascending"},  {ScoreOrder::kDescending, "descending"},
    {ScoreOrder::kEqual, "equal"},          {ScoreOrder::kClustered, "clustered"},
    {ScoreOrder::kTwoValues, "two values"}, {ScoreOrder::kMostlyMinusInf, "mostly -inf"},
};

// A level is a place among kLevels values, ascending.
constexpr int64_t kLevels = 1 << 18;
constexpr int64_t kClusterIds = 4096;
constexpr int64_t kFiniteIds = 20;

inline int64_t randomLevel(int64_t id) {
  uint32_t mixed = static_cast<uint32_t>(id) * 0x9e3779b1u;
  mixed = (mixed ^ mixed >> 15) * 0x85ebca77u;
  return (mixed ^ mixed >> 13) >> 14;
}

inline int64_t levelOf(ScoreOrder order, int64_t id, int64_t vocab) {
  switch (order) {
    case ScoreOrder::kAscending:
      return id * kLevels / vocab;
    case ScoreOrder::kDescending:
      return (vocab - 1 - id) * kLevels / vocab;
    case ScoreOrder::kEqual:
      return 3 * kLevels / 4;
    case ScoreOrder::kClustered: {
      // The upper eighth of the levels is for the best ids, which begin where no tile does.
      const int64_t begin = vocab / 2 + 77;
      const bool best = id >= begin && id < begin + kClusterIds;
      return best ? kLevels / 8 * 7 + randomLevel(id) / 8 : randomLevel(id) * 7 / 8;
    }
    case ScoreOrder::kTwoValues:
      return 3 * kLevels / 4 + (randomLevel(id) >= kLevels / 2 ? kLevels / 16 : 0);
    case ScoreOrder::kMostlyMinusInf:
      return randomLevel(id);
  }
  return 0;
}

// The value of a level, rounded towards zero to the format, which keeps the order: magnitudes of 2^-4 to 2^4, with at
// most 15 significant bits. Different levels differ in float32; in other formats neighbours may be equal.
inline float levelValue(int64_t level, lm_head::HeadFormat format) {
  const bool negative = level < kLevels / 2;
  const int64_t step = negative ? kLevels / 2 - 1 - level : level - kLevels / 2;
  uint32_t bits = 0x3d800000u + static_cast<uint32_t>(step << 9);
  if (format == lm_head::HeadFormat::kBfloat16) bits &= 0xffff0000u;
  if (format == lm_head::HeadFormat::kFloat16 || format == lm_head::HeadFormat::kBinary) bits &= 0xffffe000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return negative ? -value : value;
}

// The first column of hidden: rows differ.
inline float hiddenOfRow(int64_t row) { return std::ldexp(1.0f, static_cast<int>(row % 5) - 2); }

inline bool isFinite(ScoreOrder order, int64_t id, int64_t vocab) {
  if (order != ScoreOrder::kMostlyMinusInf) return true;
  // ids vocab * j / kFiniteIds + 7
  const int64_t j = (id - 7) * kFiniteIds / vocab;
  for (const int64_t near : {j - 1, j, j + 1}) {
    if (near >= 0 && near < kFiniteIds && vocab * near / kFiniteIds + 7 == id) return true;
  }
  return false;
}

// What a head's first column, its bias and the best of its scores are; the same ids are the best in every row.
class InjectedScores {
 public:
  InjectedScores(ScoreOrder order, lm_head::HeadFormat format, int64_t vocab, int64_t mostK) : format_(format) {
    column_.resize(vocab);
    std::vector<lm_head::Key> keys(vocab);
    if (order == ScoreOrder::kMostlyMinusInf) bias_.assign(vocab, -INFINITY);
    for (int64_t id = 0; id < vocab; ++id) {
      column_[id] = levelValue(levelOf(order, id, vocab), format);
      const bool finite = isFinite(order, id, vocab);
      if (finite && !bias_.empty()) bias_[id] = 0.0f;
      keys[id] = lm_head::makeKey(finite ? column_[id] : -INFINITY, static_cast<uint32_t>(id));
    }
    const auto end = keys.begin() + std::min(mostK, vocab);
    std::nth_element(keys.begin(), end - 1, keys.end(), std::greater<lm_head::Key>());
    std::sort(keys.begin(), end, std::greater<lm_head::Key>());
    best_.assign(keys.begin(), end);
  }

  const std::vector<float>& column() const { return column_; }
  // Empty: none.
  const std::vector<float>& bias() const { return bias_; }

  int32_t bestId(int64_t place) const { return static_cast<int32_t>(lm_head::keyId(best_[place])); }

  // Its score in a row, exactly.
  float bestValue(int64_t place, int64_t row) const {
    const float weight = lm_head::keyValue(best_[place]), hidden = hiddenOfRow(row);
    if (format_ != lm_head::HeadFormat::kBinary || std::isinf(weight)) return weight * hidden;
    // Hidden in 8 bits is 127 times the scale of the row. Every product but the last is exact.
    const float scale = hidden / 127.0f;
    return 127.0f * weight * scale;
  }

 private:
  lm_head::HeadFormat format_;
  std::vector<float> column_, bias_;
  std::vector<lm_head::Key> best_;
};

}  // namespace test
