#include <algorithm>
#include <limits>

#include "../parallel.h"
#include "lm_head.h"
#include "reductions/draw.h"
#include "reductions/log_sum_exp.h"
#include "reductions/ranks.h"
#include "reductions/top_k.h"
#include "sweep.h"

namespace lm_head {
namespace {

// How often the weights are read from memory, and how much scratch that takes.
constexpr int64_t kMostRowsTogether = 64;
// Of a product and its sum, in those that parallel.h counts.
constexpr int64_t kProductsPerOperation = 8;

std::unique_ptr<Mainloop> makeMainloop(const LmHeadTopKArgs& args) {
  return args.format == HeadFormat::kBinary ? makeBinaryMainloop(args) : makeDenseMainloop(args);
}

}  // namespace

CpuPlan::CpuPlan(const LmHeadTopKArgs& args)
    : args(args),
      adjustIndex(args.options.adjust, args.vocabStart, args.vocabSize),
      mainloop(makeMainloop(args)),
      epilogue{mainloop->rowScales(), args.bias},
      rowsTogether(static_cast<int>(std::min(args.rows, kMostRowsTogether))),
      threads(threadsFor(rowsTogether * args.vocabSize * args.hiddenSize / kProductsPerOperation)),
      blocks((args.vocabSize + kReductionIds - 1) / kReductionIds) {
  this->args.options.adjust.index = adjustIndex.index();
}

std::vector<std::unique_ptr<Reduction>> CpuPlan::reductions(int64_t firstRow, int rows) const {
  std::vector<std::unique_ptr<Reduction>> all;
  if (args.draw.wanted()) {
    all.push_back(std::make_unique<Draw>(args, threads, rows, firstRow));
  } else {
    all.push_back(std::make_unique<TopK>(args, threads, rows));
  }
  if (args.wantsLogSumExp()) all.push_back(std::make_unique<LogSumExp>(args, threads, rows));
  if (args.rank.ids != nullptr) all.push_back(std::make_unique<Ranks>(args, threads, rows, firstRow));
  return all;
}

void lmHeadTopKCpu(const LmHeadTopKArgs& args) {
  const KeepDenormals keepDenormals;
  sweep(CpuPlan(args));
}

void lmHeadScoresCpu(const LmHeadTopKArgs& args, const int32_t* ids, int64_t count, float* scores) {
  const KeepDenormals keepDenormals;
  const CpuPlan plan(args);
  const int64_t products = args.rows * count * kCpuTileIds * args.hiddenSize / kProductsPerOperation;
  parallelFor(threadsFor(products), args.rows * count, [&](int, int64_t begin, int64_t end) {
    const KeepDenormals keepThreadsDenormals;
    std::vector<CacheLine> scratch(plan.mainloop->scratchLines(1));
    float sums[kCpuTileIds];
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / count, place = ids[i] - args.vocabStart;
      scores[i] = std::numeric_limits<float>::quiet_NaN();
      if (place < 0 || place >= args.vocabSize) continue;
      const int64_t first = place / kCpuTileIds * kCpuTileIds;
      const int tile = static_cast<int>(std::min<int64_t>(kCpuTileIds, args.vocabSize - first));
      plan.mainloop->sum(first, tile, row, 1, scratch.data(), sums, kCpuTileIds);
      scores[i] = finish(plan.epilogue, row, place, sums[place - first]);
      scores[i] = withOptions(plan.args.options, row, args.vocabSize, place, ids[i], scores[i]);
    }
  });
}

}  // namespace lm_head
