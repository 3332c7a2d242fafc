// LmHeadScores and LmHeadRanks as TensorFlow ops: scores of given ids, and how many ids come before them.
#include "../core/log_sum.h"
#include "checks.h"
#include "head_inputs.h"
#include "lm_head_topk.h"
#include "ops.h"

namespace lm_head {
namespace {

// How many of `ids` each row has, whatever their shape.
int64_t idsOfRow(const char* op, const Tensor& ids, const HeadInputs::Call& call) {
  const int64_t rows = call.args.rows;
  require(rows == 0 ? ids.size() == 0 : ids.size() % rows == 0, [&] {
    return std::string(op) + ": input 'ids' must have as many ids for each of " + std::to_string(rows) +
           " rows, but got shape " + ids.shape();
  });
  return rows == 0 ? 0 : ids.size() / rows;
}

class LmHeadScoresKernel {
 public:
  explicit LmHeadScoresKernel(const OpAttributes& attributes) : head_("LmHeadScores", attributes, false) {}

  template <Device kDevice>
  void compute(const OpContext& context) const {
    HeadInputs::Call call = head_.read(context);
    const Tensor ids = context.input(call.next);
    const int64_t count = idsOfRow("LmHeadScores", ids, call);
    const Tensor scores = context.output(0, TF_FLOAT, call.shapeWith(count));
    if (call.args.rows == 0 || count == 0) return;
    require(call.args.vocabSize > 0, "LmHeadScores: input 'weight' must have at least one row");
    if constexpr (kDevice == Device::kGpu) {
      lmHeadScoresGpu(context, call.args, ids.data<const int32_t>(), count, scores.data<float>());
    } else {
      lmHeadScoresCpu(call.args, ids.data<const int32_t>(), count, scores.data<float>());
    }
  }

 private:
  HeadInputs head_;
};

class LmHeadRanksKernel {
 public:
  explicit LmHeadRanksKernel(const OpAttributes& attributes)
      : head_(kOp, attributes, false), logSumState_(attributes.integer("num_log_sum_state") != 0) {
    require(attributes.integer("num_log_sum_state") <= 1, "LmHeadRanks: attribute 'num_log_sum_state' must be 0 or 1");
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    HeadInputs::Call call = head_.read(context);
    LmHeadTopKArgs& args = call.args;
    const Tensor ids = context.input(call.next), scores = context.input(call.next + 1);
    const int64_t count = idsOfRow(kOp, ids, call);
    require(count <= kMaxRankIds, [&] {
      return "LmHeadRanks: input 'ids' must have at most " + std::to_string(kMaxRankIds) +
             " ids a row, but got shape " + ids.shape();
    });
    require(scores.size() == ids.size(), [&] {
      return "LmHeadRanks: input 'scores' must have the shape of ids, " + ids.shape() + ", but got " + scores.shape();
    });
    const Tensor ranks = context.output(0, TF_INT32, call.shapeWith(count));
    const Tensor logSumExp = context.output(1, TF_FLOAT, call.leading);
    const Tensor logSumState =
        logSumState_ ? context.output(2, TF_INT32, call.shapeWith(LogSum::kWords)) : Tensor(nullptr);
    if (args.rows == 0) return;
    require(args.vocabSize > 0, "LmHeadRanks: input 'weight' must have at least one row");
    args.logSumExp = logSumExp.data<float>();
    if (logSumState_) args.logSumState = logSumState.data<int32_t>();
    if (count > 0) {
      args.rank = {ids.data<const int32_t>(), scores.data<const float>(), count, ranks.data<int32_t>()};
    }
    // The sweep keeps the best one, too: where nobody reads it.
    const Tensor dropped = context.temporary(args.rows * static_cast<int64_t>(sizeof(float) + sizeof(int32_t)));
    args.k = 1;
    args.values = dropped.data<float>();
    args.indices = reinterpret_cast<int32_t*>(args.values + args.rows);
    sweepOn<kDevice>(context, args, kOp);
  }

 private:
  static constexpr const char* kOp = "LmHeadRanks";
  HeadInputs head_;
  bool logSumState_;
};

}  // namespace

void registerLmHeadScores() {
  defineOp("LmHeadScores", HeadInputs::inputs({"ids: int32"}), {"scores: float"}, HeadInputs::attributes({}));
  registerKernel<LmHeadScoresKernel>("LmHeadScores");
  defineOp("LmHeadRanks", HeadInputs::inputs({"ids: int32", "scores: float"}),
           {"ranks: int32", "log_sum_exp: float", "log_sum_state: num_log_sum_state * int32"},
           HeadInputs::attributes({"num_log_sum_state: int >= 0 = 0"}));
  registerKernel<LmHeadRanksKernel>("LmHeadRanks");
}

}  // namespace lm_head
