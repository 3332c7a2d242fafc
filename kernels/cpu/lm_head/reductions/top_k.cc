#include "top_k.h"

#include <algorithm>
#include <functional>

namespace lm_head {

void RunningTopK::offer(const float* scores, int ids, int64_t firstId) {
  constexpr int kTogether = 16;
  for (int first = 0; first < ids; first += kTogether) {
    const int count = std::min(kTogether, ids - first);
    bool any = false;
    for (int i = 0; i < count; ++i) any |= !(scores[first + i] <= thresholdValue_);
    if (!any) continue;
    for (int i = first; i < first + count; ++i) offer(makeKey(scores[i], static_cast<uint32_t>(firstId + i)));
  }
}

void RunningTopK::offer(Key key) {
  if (key <= threshold_) return;
  keys_.push_back(key);
  if (static_cast<int64_t>(keys_.size()) >= 2 * k_ + 64) cutBack();
}

const std::vector<Key>& RunningTopK::sorted() {
  cutBack();
  std::sort(keys_.begin(), keys_.end(), std::greater<Key>());
  return keys_;
}

void RunningTopK::cutBack() {
  if (static_cast<int64_t>(keys_.size()) <= k_) return;
  std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.end(), std::greater<Key>());
  keys_.resize(k_);
  threshold_ = keys_.back();
  thresholdValue_ = keyValue(threshold_);
}

void TopK::write(int row, int64_t out) {
  RunningTopK& best = lists_[row];
  for (uint64_t other = row + rows_; other < lists_.size(); other += rows_) {
    for (const Key key : lists_[other].keys()) best.offer(key);
  }
  const std::vector<Key>& keys = best.sorted();
  for (int64_t i = 0; i < args_.k; ++i) {
    args_.values[out * args_.k + i] = keyValue(keys[i]);
    args_.indices[out * args_.k + i] = static_cast<int32_t>(keyId(keys[i]) + args_.vocabStart);
  }
}

}  // namespace lm_head
