// How many ids come before given ones, on the CPU.
#pragma once

#include <vector>

#include "../../../core/lm_head_topk_args.h"
#include "../../../core/order.h"
#include "reduction.h"

namespace lm_head {

// An id is counted once, for the best of a row's ids that it comes before; what stands behind that one counts it, too.
class Ranks final : public Reduction {
 public:
  Ranks(const LmHeadTopKArgs& args, int workers, int rows, int64_t firstRow);

  void take(int worker, int row, const float* scores, int ids, int64_t firstId) override;
  void write(int row, int64_t out) override;

 private:
  Key keyOf(int64_t row, int64_t i) const;

  LmHeadTopKArgs args_;
  int64_t rows_, count_;
  std::vector<Key> targets_;      // [rows, count], best first
  std::vector<int32_t> buckets_;  // [workers, rows, count]
};

}  // namespace lm_head
