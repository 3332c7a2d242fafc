// The k best scores of each row, on the CPU.
#pragma once

#include <limits>
#include <vector>

#include "../../../core/lm_head_topk_args.h"
#include "../../../core/order.h"
#include "reduction.h"

namespace lm_head {

// The k best of the keys offered so far. Most keys fail one comparison; the others are collected and cut back now and
// then.
class RunningTopK {
 public:
  explicit RunningTopK(int64_t k) : k_(k) {}

  // Scores of ids [firstId, firstId + ids), all larger than those offered before: a score equal to the worst that is
  // kept is no better.
  void offer(const float* scores, int ids, int64_t firstId);
  void offer(Key key);

  const std::vector<Key>& keys() const { return keys_; }
  const std::vector<Key>& sorted();

 private:
  void cutBack();

  int64_t k_;
  Key threshold_ = kWorstKey;
  float thresholdValue_ = std::numeric_limits<float>::quiet_NaN();  // which every score passes
  std::vector<Key> keys_;
};

class TopK final : public Reduction {
 public:
  TopK(const LmHeadTopKArgs& args, int workers, int rows)
      : args_(args), rows_(rows), lists_(workers * rows_, RunningTopK(args.k)) {}

  void take(int worker, int row, const float* scores, int ids, int64_t firstId) override {
    lists_[worker * rows_ + row].offer(scores, ids, firstId);
  }
  void write(int row, int64_t out) override;

 private:
  LmHeadTopKArgs args_;
  int64_t rows_;
  std::vector<RunningTopK> lists_;  // [workers, rows]
};

}  // namespace lm_head
