// LmHeadTopK as a TensorFlow op: its definition, and tensors to pointers. LmHeadTopKHost is the same op with its
// outputs in host memory, filled when it returns.
#include "../core/log_sum.h"
#include "head_inputs.h"
#include "host_results.h"
#include "lm_head_topk.h"
#include "ops.h"

namespace lm_head {
namespace {

class LmHeadTopKKernel {
 public:
  explicit LmHeadTopKKernel(const OpAttributes& attributes)
      : group_(attributes.integer("group")),
        head_("LmHeadTopK", attributes, group_ != 0),  // in a group, a rank may hold no ids
        k_(attributes.integer("k")),
        logSumExp_(attributes.integer("num_log_sum_exp") != 0),
        logSumState_(attributes.integer("num_log_sum_state") != 0) {
    for (const char* count : {"num_log_sum_exp", "num_log_sum_state"}) {
      require(attributes.integer(count) <= 1, std::string("LmHeadTopK: attribute '") + count + "' must be 0 or 1");
    }
    require(!logSumState_ || group_ == 0, "LmHeadTopK: output 'log_sum_state' is of one shard, not of a group");
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    HeadInputs::Call call = head_.read(context);
    LmHeadTopKArgs& args = call.args;
    args.k = k_;
    const std::shared_ptr<TensorParallelGroup> group = tensorParallelGroup(group_, "LmHeadTopK");
    require(group == nullptr || kDevice == Device::kGpu, "LmHeadTopK: attribute 'group' needs a GPU");
    // In a group, k counts in the vocabulary of all ranks.
    require(0 <= k_ && (group != nullptr || k_ <= args.vocabSize), [&] {
      return "LmHeadTopK: attribute 'k' must be 0 to " + std::to_string(args.vocabSize) + ", but got " +
             std::to_string(k_);
    });

    const Tensor values = context.output(0, TF_FLOAT, call.shapeWith(k_));
    const Tensor indices = context.output(1, TF_INT32, call.shapeWith(k_));
    const Tensor logSumExp = logSumExp_ ? context.output(2, TF_FLOAT, call.leading) : Tensor(nullptr);
    const Tensor logSumState =
        logSumState_ ? context.output(logSumExp_ ? 3 : 2, TF_INT32, call.shapeWith(LogSum::kWords)) : Tensor(nullptr);
    const bool sums = logSumExp_ || logSumState_;
    if (args.rows == 0 || (k_ == 0 && !sums)) return;
    args.values = values.data<float>();
    args.indices = indices.data<int32_t>();
    require(!sums || group != nullptr || args.vocabSize > 0,
            "LmHeadTopK: output 'log_sum_exp' needs a vocabulary of at least 1");
    if (logSumExp_) args.logSumExp = logSumExp.data<float>();
    if (logSumState_) args.logSumState = logSumState.data<int32_t>();
    // The kernels know no k of 0: the best one goes where nobody reads it.
    const int64_t droppedBytes = args.rows * static_cast<int64_t>(sizeof(float) + sizeof(int32_t));
    const Tensor dropped = k_ == 0 ? context.temporary(droppedBytes) : Tensor(nullptr);
    if (k_ == 0) {
      args.k = 1;
      args.values = dropped.data<float>();
      args.indices = reinterpret_cast<int32_t*>(args.values + args.rows);
    }
    if constexpr (kDevice == Device::kGpu) {
      const auto run = [&] {
        if (group != nullptr) return lmHeadTopKGroupGpu(context, args, *group);
        lmHeadTopKGpu(context, args);
      };
      if (!context.isHostOutput(0)) return run();
      const HostResults results(context, {&values, &indices, &logSumExp, &logSumState});
      if (k_ > 0) {
        args.values = results.data<float>(0);
        args.indices = results.data<int32_t>(1);
      }
      if (logSumExp_) args.logSumExp = results.data<float>(2);
      if (logSumState_) args.logSumState = results.data<int32_t>(3);
      run();
      results.bringHome(context, "LmHeadTopK");
    } else {
      lmHeadTopKCpu(args);
    }
  }

 private:
  int64_t group_;
  HeadInputs head_;
  int64_t k_;
  bool logSumExp_;
  bool logSumState_;
};

}  // namespace

void registerLmHeadTopK() {
  for (const char* op : {"LmHeadTopK", "LmHeadTopKHost"}) {
    defineOp(op, HeadInputs::inputs({}),
             {"values: float", "indices: int32", "log_sum_exp: num_log_sum_exp * float",
              "log_sum_state: num_log_sum_state * int32"},
             HeadInputs::attributes({"num_log_sum_exp: int >= 0 = 0", "num_log_sum_state: int >= 0 = 0", "k: int >= 0",
                                     "group: int = 0"}));
  }
  registerKernel<LmHeadTopKKernel>("LmHeadTopK");
  registerKernel<LmHeadTopKKernel>("LmHeadTopKHost", {}, {"values", "indices", "log_sum_exp", "log_sum_state"});
}

}  // namespace lm_head
