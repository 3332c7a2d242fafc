#include "top_k.h"

#include <algorithm>
#include <functional>

namespace lm_head {
namespace {

#if defined(__x86_64__)
#define FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_CPU
#endif

constexpr int kTogether = 32;

// The first of kTogether scores, from a multiple of kTogether on, of which one is not at most `threshold`; or a place
// behind which fewer are left.
FOR_EACH_CPU int findCandidate(const float* scores, int first, int ids, float threshold) {
  for (; first + kTogether <= ids; first += kTogether) {
    int32_t any = 0;
    for (int i = 0; i < kTogether; ++i) any |= !(scores[first + i] <= threshold);
    if (any) break;
  }
  return first;
}

}  // namespace

void RunningTopK::offer(const float* scores, int ids, int64_t firstId) {
  for (int first = 0;; first += kTogether) {
    first = findCandidate(scores, first, ids, thresholdValue_);
    if (first >= ids) return;
    const int end = std::min(first + kTogether, ids);
    for (int i = first; i < end; ++i) {
      if (!(scores[i] <= thresholdValue_)) offer(makeKey(scores[i], static_cast<uint32_t>(firstId + i)));
    }
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
