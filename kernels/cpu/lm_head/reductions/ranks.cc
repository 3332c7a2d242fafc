#include "ranks.h"

#include <algorithm>
#include <functional>

namespace lm_head {

Ranks::Ranks(const LmHeadTopKArgs& args, int workers, int rows, int64_t firstRow)
    : args_(args), rows_(rows), count_(args.rank.count), targets_(rows_ * count_), buckets_(workers * rows_ * count_) {
  for (int64_t row = 0; row < rows_; ++row) {
    const auto begin = targets_.begin() + row * count_;
    for (int64_t i = 0; i < count_; ++i) begin[i] = keyOf(firstRow + row, i);
    std::sort(begin, begin + count_, std::greater<Key>());
  }
}

Key Ranks::keyOf(int64_t row, int64_t i) const {
  const RankOption& rank = args_.rank;
  return makeKey(rank.scores[row * count_ + i], static_cast<uint32_t>(rank.ids[row * count_ + i]));
}

void Ranks::take(int worker, int row, const float* scores, int ids, int64_t firstId) {
  const Key* targets = targets_.data() + row * count_;
  int32_t* buckets = buckets_.data() + (worker * rows_ + row) * count_;
  for (int i = 0; i < ids; ++i) {
    const Key key = makeKey(scores[i], static_cast<uint32_t>(args_.vocabStart + firstId + i));
    if (key <= targets[count_ - 1]) continue;
    ++buckets[std::upper_bound(targets, targets + count_, key, std::greater<Key>()) - targets];
  }
}

void Ranks::write(int row, int64_t out) {
  std::vector<int32_t> before(count_);
  int32_t sum = 0;
  for (int64_t i = 0; i < count_; ++i) {
    for (uint64_t part = row * count_; part < buckets_.size(); part += rows_ * count_) sum += buckets_[part + i];
    before[i] = sum;
  }
  const Key* targets = targets_.data() + row * count_;
  for (int64_t i = 0; i < count_; ++i) {
    const Key* place = std::lower_bound(targets, targets + count_, keyOf(out, i), std::greater<Key>());
    args_.rank.ranks[out * count_ + i] = before[place - targets];
  }
}

}  // namespace lm_head
