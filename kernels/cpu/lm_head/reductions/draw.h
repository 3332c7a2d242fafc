// The best noisy score of each row, on the CPU: a draw.
#pragma once

#include <vector>

#include "../../../core/lm_head_topk_args.h"
#include "../../../core/order.h"
#include "reduction.h"

namespace lm_head {

class Draw final : public Reduction {
 public:
  Draw(const LmHeadTopKArgs& args, int workers, int rows, int64_t firstRow)
      : args_(args), rows_(rows), firstRow_(firstRow), best_(workers * rows_, kWorstKey) {}

  void take(int worker, int row, const float* scores, int ids, int64_t firstId) override;
  void write(int row, int64_t out) override;

 private:
  LmHeadTopKArgs args_;
  int64_t rows_, firstRow_;
  std::vector<Key> best_;  // [workers, rows]
};

}  // namespace lm_head
