#include "draw.h"

#include <algorithm>
#include <cmath>

namespace lm_head {

void Draw::take(int worker, int row, const float* scores, int ids, int64_t firstId) {
  Key& best = best_[worker * rows_ + row];
  for (int i = 0; i < ids; ++i) {
    const auto id = static_cast<uint32_t>(args_.vocabStart + firstId + i);
    best = std::max(best, makeKey(args_.draw.noisyScore(firstRow_ + row, id, scores[i]), id));
  }
}

void Draw::write(int row, int64_t out) {
  Key best = kWorstKey;
  for (uint64_t part = row; part < best_.size(); part += rows_) best = std::max(best, best_[part]);
  const float value = keyValue(best);
  args_.values[out] = value;
  args_.indices[out] = value == -INFINITY ? -1 : static_cast<int32_t>(keyId(best));
}

}  // namespace lm_head
