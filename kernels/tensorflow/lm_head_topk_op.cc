// LmHeadTopK as a TensorFlow op: its definition, and tensors to pointers. LmHeadTopKHost is the same op with its
// outputs in host memory, filled when it returns.
#include <utility>
#include <vector>

#include "../core/binary_layout.h"
#include "../core/log_sum.h"
#include "checks.h"
#include "host_results.h"
#include "lm_head_topk.h"
#include "ops.h"
#include "score_inputs.h"

namespace lm_head {
namespace {

HeadFormat parseFormat(const std::string& name) {
  if (name == "float32") return HeadFormat::kFloat32;
  if (name == "bfloat16") return HeadFormat::kBfloat16;
  if (name == "float16") return HeadFormat::kFloat16;
  if (name == "binary") return HeadFormat::kBinary;
  throw OpError(TF_INVALID_ARGUMENT,
                "LmHeadTopK: attribute 'format' must be float32, bfloat16, float16 or binary, but got " + name);
}

class LmHeadTopKKernel {
 public:
  explicit LmHeadTopKKernel(const OpAttributes& attributes)
      : format_(parseFormat(attributes.string("format"))),
        k_(attributes.integer("k")),
        groupSize_(attributes.integer("group_size")),
        transposeWeight_(attributes.boolean("transpose_weight")),
        vocabStart_(attributes.integer("vocab_start")),
        vocabSize_(attributes.integer("vocab_size")),
        scoreInputs_("LmHeadTopK", attributes),
        logSumExp_(attributes.integer("num_log_sum_exp") != 0),
        logSumState_(attributes.integer("num_log_sum_state") != 0),
        group_(attributes.integer("group")) {
    const bool wantsFloat = format_ == HeadFormat::kFloat32;
    require(attributes.type("Tweight") == (wantsFloat ? TF_FLOAT : TF_INT32), [&] {
      const auto [expected, actual] = wantsFloat ? std::pair("float32", "int32") : std::pair("int32", "float32");
      return std::string("LmHeadTopK: input 'weight' must be ") + expected + " for format " +
             attributes.string("format") + ", but got " + actual;
    });
    require(!transposeWeight_ || wantsFloat, "LmHeadTopK: attribute 'transpose_weight' needs format float32");
    const bool binary = format_ == HeadFormat::kBinary;
    require(!scoreInputs_.hasHiddenScale() || binary, "LmHeadTopK: input 'hidden_scale' needs format binary");
    // In a group, a rank may hold no ids.
    require(binary ? vocabSize_ >= (group_ == 0 ? 1 : 0) : vocabSize_ == 0,
            "LmHeadTopK: attribute 'vocab_size' must be at least 1 with format binary, and 0 with another, but got " +
                std::to_string(vocabSize_));
    for (const char* count : {"num_log_sum_exp", "num_log_sum_state"}) {
      require(attributes.integer(count) <= 1, std::string("LmHeadTopK: attribute '") + count + "' must be 0 or 1");
    }
    require(!logSumState_ || group_ == 0, "LmHeadTopK: output 'log_sum_state' is of one shard, not of a group");
  }

  template <Device kDevice>
  void compute(const OpContext& context) const {
    const Tensor hidden = context.input(0), weight = context.input(1);
    require(hidden.rank() >= 1, "LmHeadTopK: input 'hidden' must have rank 1 or higher, but got a scalar");
    require(weight.rank() == 2,
            [&] { return "LmHeadTopK: input 'weight' must have rank 2, but got shape " + weight.shape(); });
    LmHeadTopKArgs args{};
    const std::vector<int64_t> leading = hidden.leadingShape();
    args.rows = 1;
    for (const int64_t dim : leading) args.rows *= dim;
    args.format = format_;
    args.hiddenSize = hidden.dim(hidden.rank() - 1);
    args.vocabSize = format_ == HeadFormat::kBinary ? vocabSize_ : weight.dim(transposeWeight_ ? 1 : 0);
    args.k = k_;
    args.vocabStart = vocabStart_;
    setWeight(weight, args);
    const std::shared_ptr<TensorParallelGroup> group = tensorParallelGroup(group_, "LmHeadTopK");
    require(group == nullptr || kDevice == Device::kGpu, "LmHeadTopK: attribute 'group' needs a GPU");
    // In a group, k counts in the vocabulary of all ranks.
    require(0 <= k_ && (group != nullptr || k_ <= args.vocabSize), [&] {
      return "LmHeadTopK: attribute 'k' must be 0 to " + std::to_string(args.vocabSize) + ", but got " +
             std::to_string(k_);
    });
    require(vocabStart_ >= 0 && vocabStart_ <= INT32_MAX - args.vocabSize, [&] {
      return "LmHeadTopK: attribute 'vocab_start' must be at least 0 and keep ids below 2^31 - 1, but got " +
             std::to_string(vocabStart_);
    });

    const ScoreInputs::Tensors scoreTensors = scoreInputs_.setArgs(context, 2, leading, args);
    std::vector<int64_t> resultShape = leading;
    resultShape.push_back(k_);
    const Tensor values = context.output(0, TF_FLOAT, resultShape);
    const Tensor indices = context.output(1, TF_INT32, resultShape);
    const Tensor logSumExp = logSumExp_ ? context.output(2, TF_FLOAT, leading) : Tensor(nullptr);
    std::vector<int64_t> stateShape = leading;
    stateShape.push_back(LogSum::kWords);
    const Tensor logSumState =
        logSumState_ ? context.output(logSumExp_ ? 3 : 2, TF_INT32, stateShape) : Tensor(nullptr);
    const bool sums = logSumExp_ || logSumState_;
    if (args.rows == 0 || (k_ == 0 && !sums)) return;
    args.hidden = hidden.data<const float>();
    args.weight = weight.data<const void>();
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
  void setWeight(const Tensor& weight, LmHeadTopKArgs& args) const {
    const auto requireInner = [&](int axis, int64_t size) {
      require(weight.dim(axis) == size, [&] {
        return "LmHeadTopK: input 'weight' must have " + std::to_string(size) + " elements along axis " +
               std::to_string(axis) + " for hidden of shape [...," + std::to_string(args.hiddenSize) +
               "], but got shape " + weight.shape();
      });
    };
    if (format_ == HeadFormat::kFloat32) {
      requireInner(transposeWeight_ ? 0 : 1, args.hiddenSize);
      args.weightRowStride = transposeWeight_ ? 1 : args.hiddenSize;
      args.weightColumnStride = transposeWeight_ ? args.vocabSize : 1;
    } else if (format_ == HeadFormat::kBinary) {
      requireGroupSize("LmHeadTopK", groupSize_, args.hiddenSize);
      const BinaryLayout layout{args.hiddenSize, groupSize_};
      requireShape("LmHeadTopK", "weight", weight, {BinaryLayout::tiles(vocabSize_), layout.tileWords()});
      args.groupSize = groupSize_;
    } else {
      const int64_t words = (args.hiddenSize + 7) / 8 * 4;
      requireInner(1, words);
      args.weightRowStride = 2 * words;
    }
  }

  HeadFormat format_;
  int64_t k_;
  int64_t groupSize_;
  bool transposeWeight_;
  int64_t vocabStart_;
  int64_t vocabSize_;
  ScoreInputs scoreInputs_;
  bool logSumExp_;
  bool logSumState_;
  int64_t group_;
};

}  // namespace

void registerLmHeadTopK() {
  std::vector<std::string> inputs = ScoreInputs::inputs(), attributes = ScoreInputs::attributes();
  inputs.insert(inputs.begin(), {"hidden: float", "weight: Tweight"});
  attributes.insert(attributes.end(),
                    {"Tweight: {float, int32}", "num_log_sum_exp: int >= 0 = 0", "num_log_sum_state: int >= 0 = 0",
                     "format: string", "k: int >= 0", "group_size: int = 0", "transpose_weight: bool = false",
                     "vocab_start: int = 0", "vocab_size: int = 0", "group: int = 0"});
  for (const char* op : {"LmHeadTopK", "LmHeadTopKHost"}) {
    defineOp(op, inputs,
             {"values: float", "indices: int32", "log_sum_exp: num_log_sum_exp * float",
              "log_sum_state: num_log_sum_state * int32"},
             attributes);
  }
  registerKernel<LmHeadTopKKernel>("LmHeadTopK");
  registerKernel<LmHeadTopKKernel>("LmHeadTopKHost", {}, {"values", "indices", "log_sum_exp", "log_sum_state"});
}

}  // namespace lm_head
