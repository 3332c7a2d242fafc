#include "sweep.h"

#include <algorithm>

#include "../parallel.h"

namespace lm_head {
namespace {

static_assert(kReductionIds % kCpuTileIds == 0, "whole tiles");

using Reductions = std::vector<std::unique_ptr<Reduction>>;

// What a thread needs to score blocks of ids against `rows` rows from `firstRow` on.
class Worker {
 public:
  Worker(const CpuPlan& plan, const Reductions& reductions, int number, int64_t firstRow, int rows)
      : plan_(plan),
        reductions_(reductions),
        number_(number),
        firstRow_(firstRow),
        rows_(rows),
        scratch_(plan.mainloop->scratchLines(rows)),
        scores_(int64_t{rows} * kReductionIds) {}

  void sweep(int64_t block) {
    const int64_t firstId = block * kReductionIds;
    const int ids = static_cast<int>(std::min<int64_t>(kReductionIds, plan_.args.vocabSize - firstId));
    for (int first = 0; first < ids; first += kCpuTileIds) {
      plan_.mainloop->sum(firstId + first, std::min(kCpuTileIds, ids - first), firstRow_, rows_, scratch_.data(),
                          scores_.data() + first, kReductionIds);
    }
    for (int row = 0; row < rows_; ++row) {
      float* scores = scores_.data() + static_cast<int64_t>(row) * kReductionIds;
      for (int i = 0; i < ids; ++i) scores[i] = finish(plan_.epilogue, firstRow_ + row, firstId + i, scores[i]);
      if (plan_.args.options.any()) applyOptions(firstRow_ + row, firstId, scores, ids);
      for (const auto& reduction : reductions_) reduction->take(number_, row, scores, ids, firstId);
    }
  }

 private:
  void applyOptions(int64_t row, int64_t firstId, float* scores, int ids) const {
    const LmHeadTopKArgs& args = plan_.args;
    for (int i = 0; i < ids; ++i) {
      const auto id = static_cast<int32_t>(args.vocabStart + firstId + i);
      scores[i] = withOptions(args.options, row, args.vocabSize, firstId + i, id, scores[i]);
    }
  }

  const CpuPlan& plan_;
  const Reductions& reductions_;
  int number_;
  int64_t firstRow_;
  int rows_;
  std::vector<CacheLine> scratch_;
  std::vector<float> scores_;  // [rows, kReductionIds], sums first
};

}  // namespace

void sweep(const CpuPlan& plan) {
  for (int64_t firstRow = 0; firstRow < plan.args.rows; firstRow += plan.rowsTogether) {
    const int rows = static_cast<int>(std::min<int64_t>(plan.rowsTogether, plan.args.rows - firstRow));
    const Reductions reductions = plan.reductions(firstRow, rows);
    parallelFor(plan.threads, plan.blocks, [&](int number, int64_t begin, int64_t end) {
      const KeepDenormals keepDenormals;
      Worker worker(plan, reductions, number, firstRow, rows);
      for (int64_t block = begin; block < end; ++block) worker.sweep(block);
    });
    for (int row = 0; row < rows; ++row) {
      for (const auto& reduction : reductions) reduction->write(row, firstRow + row);
    }
  }
}

}  // namespace lm_head
