#include "head_inputs.h"

#include <utility>

#include "../core/binary_layout.h"
#include "checks.h"

namespace lm_head {
namespace {

HeadFormat parseFormat(const char* op, const std::string& name) {
  if (name == "float32") return HeadFormat::kFloat32;
  if (name == "bfloat16") return HeadFormat::kBfloat16;
  if (name == "float16") return HeadFormat::kFloat16;
  if (name == "binary") return HeadFormat::kBinary;
  throw OpError(TF_INVALID_ARGUMENT,
                std::string(op) + ": attribute 'format' must be float32, bfloat16, float16 or binary, but got " + name);
}

}  // namespace

std::vector<std::string> HeadInputs::inputs(const std::vector<std::string>& own) {
  std::vector<std::string> all{"hidden: float", "weight: Tweight"};
  for (const std::string& input : ScoreInputs::inputs()) all.push_back(input);
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::vector<std::string> HeadInputs::attributes(const std::vector<std::string>& own) {
  std::vector<std::string> all = ScoreInputs::attributes();
  all.insert(all.end(), {"Tweight: {float, int32}", "format: string", "group_size: int = 0",
                         "transpose_weight: bool = false", "vocab_start: int = 0", "vocab_size: int = 0"});
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::vector<int64_t> HeadInputs::Call::shapeWith(int64_t inner) const {
  std::vector<int64_t> shape = leading;
  shape.push_back(inner);
  return shape;
}

HeadInputs::HeadInputs(const char* op, const OpAttributes& attributes, bool mayBeEmpty)
    : op_(op),
      format_(parseFormat(op, attributes.string("format"))),
      groupSize_(attributes.integer("group_size")),
      transposeWeight_(attributes.boolean("transpose_weight")),
      vocabStart_(attributes.integer("vocab_start")),
      vocabSize_(attributes.integer("vocab_size")),
      scoreInputs_(op, attributes) {
  const bool wantsFloat = format_ == HeadFormat::kFloat32, binary = format_ == HeadFormat::kBinary;
  require(attributes.type("Tweight") == (wantsFloat ? TF_FLOAT : TF_INT32), [&] {
    const auto [expected, actual] = wantsFloat ? std::pair("float32", "int32") : std::pair("int32", "float32");
    return std::string(op) + ": input 'weight' must be " + expected + " for format " + attributes.string("format") +
           ", but got " + actual;
  });
  require(!transposeWeight_ || wantsFloat,
          [&] { return std::string(op) + ": attribute 'transpose_weight' needs format float32"; });
  require(!scoreInputs_.hasHiddenScale() || binary,
          [&] { return std::string(op) + ": input 'hidden_scale' needs format binary"; });
  require(binary ? vocabSize_ >= (mayBeEmpty ? 0 : 1) : vocabSize_ == 0, [&] {
    return std::string(op) +
           ": attribute 'vocab_size' must be at least 1 with format binary, and 0 with another, but got " +
           std::to_string(vocabSize_);
  });
}

HeadInputs::Call HeadInputs::read(const OpContext& context) const {
  Call call;
  call.hidden = context.input(0);
  call.weight = context.input(1);
  const Tensor &hidden = call.hidden, &weight = call.weight;
  require(hidden.rank() >= 1,
          [&] { return std::string(op_) + ": input 'hidden' must have rank 1 or higher, but got a scalar"; });
  require(weight.rank() == 2,
          [&] { return std::string(op_) + ": input 'weight' must have rank 2, but got shape " + weight.shape(); });
  LmHeadTopKArgs& args = call.args;
  call.leading = hidden.leadingShape();
  args.rows = 1;
  for (const int64_t dim : call.leading) args.rows *= dim;
  args.format = format_;
  args.hiddenSize = hidden.dim(hidden.rank() - 1);
  args.vocabSize = format_ == HeadFormat::kBinary ? vocabSize_ : weight.dim(transposeWeight_ ? 1 : 0);
  args.vocabStart = vocabStart_;
  setWeight(weight, args);
  require(vocabStart_ >= 0 && vocabStart_ <= INT32_MAX - args.vocabSize, [&] {
    return std::string(op_) + ": attribute 'vocab_start' must be at least 0 and keep ids below 2^31 - 1, but got " +
           std::to_string(vocabStart_);
  });
  args.hidden = hidden.data<const float>();
  args.weight = weight.data<const void>();
  call.scores = scoreInputs_.setArgs(context, 2, call.leading, args).all;
  call.next = 2 + static_cast<int>(call.scores.size());
  return call;
}

void HeadInputs::setWeight(const Tensor& weight, LmHeadTopKArgs& args) const {
  const auto requireInner = [&](int axis, int64_t size) {
    require(weight.dim(axis) == size, [&] {
      return std::string(op_) + ": input 'weight' must have " + std::to_string(size) + " elements along axis " +
             std::to_string(axis) + " for hidden of shape [...," + std::to_string(args.hiddenSize) +
             "], but got shape " + weight.shape();
    });
  };
  if (format_ == HeadFormat::kFloat32) {
    requireInner(transposeWeight_ ? 0 : 1, args.hiddenSize);
    args.weightRowStride = transposeWeight_ ? 1 : args.hiddenSize;
    args.weightColumnStride = transposeWeight_ ? args.vocabSize : 1;
  } else if (format_ == HeadFormat::kBinary) {
    requireGroupSize(op_, groupSize_, args.hiddenSize);
    const BinaryLayout layout{args.hiddenSize, groupSize_};
    requireShape(op_, "weight", weight, {BinaryLayout::tiles(vocabSize_), layout.tileWords()});
    args.groupSize = groupSize_;
  } else {
    const int64_t words = (args.hiddenSize + 7) / 8 * 4;
    requireInner(1, words);
    args.weightRowStride = 2 * words;
  }
}

}  // namespace lm_head
