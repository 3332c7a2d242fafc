// The log-sum-exp of each row's scores, on the CPU.
#pragma once

#include <vector>

#include "../../../core/lm_head_topk_args.h"
#include "../../../core/log_sum.h"
#include "reduction.h"

namespace lm_head {

class LogSumExp final : public Reduction {
 public:
  LogSumExp(const LmHeadTopKArgs& args, int workers, int rows)
      : args_(args), rows_(rows), sums_(workers * rows_, LogSum::empty()) {}

  void take(int worker, int row, const float* scores, int ids, int64_t firstId) override;
  void write(int row, int64_t out) override;

 private:
  LmHeadTopKArgs args_;
  int64_t rows_;
  std::vector<LogSum> sums_;  // [workers, rows]
};

}  // namespace lm_head
