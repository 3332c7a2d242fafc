#include <algorithm>

#include "../parallel.h"
#include "lm_head.h"
#include "reductions/log_sum_exp.h"
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

std::vector<std::unique_ptr<Reduction>> CpuPlan::reductions(int rows) const {
  std::vector<std::unique_ptr<Reduction>> all;
  all.push_back(std::make_unique<TopK>(args, threads, rows));
  if (args.wantsLogSumExp()) {
    all.push_back(std::make_unique<LogSumExp>(args, threads, rows));
  }
  return all;
}

void lmHeadTopKCpu(const LmHeadTopKArgs& args) {
  const KeepDenormals keepDenormals;
  sweep(CpuPlan(args));
}

}  // namespace lm_head
