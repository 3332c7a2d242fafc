// LmHeadDraw as a TensorFlow op: a draw from the softmax of all scores, in one sweep.
#include "../core/log_sum.h"
#include "checks.h"
#include "head_inputs.h"
#include "lm_head_topk.h"
#include "ops.h"

namespace lm_head {
namespace {

constexpr const char* kOp = "LmHeadDraw";

class LmHeadDrawKernel {
 public:
  explicit LmHeadDrawKernel(const OpAttributes& attributes)
      : head_(kOp, attributes, false),
        rowIds_(attributes.integer("num_row_ids") != 0),
        logSumExp_(attributes.integer("num_log_sum_exp") != 0),
        logSumState_(attributes.integer("num_log_sum_state") != 0) {
    for (const char* count : {"num_row_ids", "num_log_sum_exp", "num_log_sum_state"}) {
      require(attributes.integer(count) <= 1,
              [&] { return std::string(kOp) + ": attribute '" + count + "' must be 0 or 1"; });
    }
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    HeadInputs::Call call = head_.read(context);
    LmHeadTopKArgs& args = call.args;
    args.k = 1;
    require(args.vocabSize > 0, "LmHeadDraw: input 'weight' must have at least one row");
    const Tensor temperature = context.input(call.next), seed = context.input(call.next + 1);
    require(temperature.size() == 1 || temperature.size() == args.rows, [&] {
      return "LmHeadDraw: input 'temperature' must have one number, or one for each of " + std::to_string(args.rows) +
             " rows, but got shape " + temperature.shape();
    });
    args.draw.temperature = {temperature.data<const float>(), temperature.size() == 1 ? 0 : 1};
    require(seed.rank() > 0 && seed.dim(seed.rank() - 1) == 4 && (seed.size() == 4 || seed.size() == 4 * args.rows),
            [&] {
              return "LmHeadDraw: input 'seed' must have 4 words, or 4 for each of " + std::to_string(args.rows) +
                     " rows, but got shape " + seed.shape();
            });
    args.draw.seeds = seed.data<const uint32_t>();
    args.draw.seedStride = seed.size() == 4 ? 0 : 4;
    const Tensor rowIds = rowIds_ ? context.input(call.next + 2) : Tensor(nullptr);
    if (rowIds_) {
      require(rowIds.size() == args.rows, [&] {
        return "LmHeadDraw: input 'row_ids' must have " + std::to_string(args.rows) + " numbers, but got shape " +
               rowIds.shape();
      });
      args.draw.rowIds = rowIds.data<const int32_t>();
    }
    const Tensor values = context.output(0, TF_FLOAT, call.leading), ids = context.output(1, TF_INT32, call.leading);
    const Tensor logSumExp = logSumExp_ ? context.output(2, TF_FLOAT, call.leading) : Tensor(nullptr);
    const Tensor logSumState =
        logSumState_ ? context.output(logSumExp_ ? 3 : 2, TF_INT32, call.shapeWith(LogSum::kWords)) : Tensor(nullptr);
    if (args.rows == 0) return;
    args.values = values.data<float>();
    args.indices = ids.data<int32_t>();
    if (logSumExp_) args.logSumExp = logSumExp.data<float>();
    if (logSumState_) args.logSumState = logSumState.data<int32_t>();
    sweepOn<kDevice>(context, args, kOp);
  }

 private:
  HeadInputs head_;
  bool rowIds_, logSumExp_, logSumState_;
};

}  // namespace

void registerLmHeadDraw() {
  defineOp(kOp, HeadInputs::inputs({"temperature: float", "seed: int32", "row_ids: num_row_ids * int32"}),
           {"noisy: float", "ids: int32", "log_sum_exp: num_log_sum_exp * float",
            "log_sum_state: num_log_sum_state * int32"},
           HeadInputs::attributes(
               {"num_row_ids: int >= 0 = 0", "num_log_sum_exp: int >= 0 = 0", "num_log_sum_state: int >= 0 = 0"}));
  registerKernel<LmHeadDrawKernel>(kOp);
}

}  // namespace lm_head
