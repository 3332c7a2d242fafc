#include "score_inputs.h"

#include "checks.h"

namespace lm_head {
const char* const ScoreInputs::kNames[] = {"hidden_scale",      "bias",       "soft_cap", "scale", "adjust_ids",
                                           "adjust_repetition", "adjust_add", "mask"};

std::vector<std::string> ScoreInputs::inputs() {
  std::vector<std::string> all;
  for (int i = 0; i < kInputs; ++i) {
    const std::string name = kNames[i];
    all.push_back(name + ": num_" + name + " * " + (isInt(i) ? "int32" : "float"));
  }
  return all;
}

std::vector<std::string> ScoreInputs::attributes() {
  std::vector<std::string> all;
  for (const char* name : kNames) all.push_back(std::string("num_") + name + ": int >= 0 = 0");
  return all;
}

ScoreInputs::ScoreInputs(const char* op, const OpAttributes& attributes) : op_(op) {
  for (int i = 0; i < kInputs; ++i) {
    const std::string count = std::string("num_") + kNames[i];
    const int64_t given = attributes.integer(count.c_str());
    require(given <= 1, [&] { return std::string(op) + ": attribute '" + count + "' must be 0 or 1"; });
    has_[i] = given == 1;
  }
  require(has_[kAdjustIds] || !(has_[kAdjustRepetition] || has_[kAdjustAdd]),
          [&] { return std::string(op) + ": inputs 'adjust_repetition' and 'adjust_add' need input 'adjust_ids'"; });
}

ScoreInputs::Tensors ScoreInputs::setArgs(const OpContext& context, int first, const std::vector<int64_t>& leading,
                                          LmHeadTopKArgs& args) const {
  Tensors tensors;
  // By number of the input; null where it is not given.
  const Tensor* given[kInputs] = {};
  tensors.all.reserve(kInputs);
  for (int i = 0; i < kInputs; ++i) {
    if (!has_[i]) continue;
    tensors.all.push_back(context.input(first++));
    given[i] = &tensors.all.back();
  }
  const auto fail = [&](int input, const std::string& expected) {
    throw OpError(TF_INVALID_ARGUMENT, std::string(op_) + ": input '" + kNames[input] + "' must have " + expected +
                                           ", but got shape " + given[input]->shape());
  };
  // How many rows a tensor has that ends with `inner` dimensions of its own: 1 for all rows, or all of them.
  const auto listsOf = [&](int input, int inner) {
    int64_t lists = 1;
    for (int axis = 0; axis < given[input]->rank() - inner; ++axis) lists *= given[input]->dim(axis);
    if (given[input]->rank() < inner || (lists != 1 && lists != args.rows)) {
      fail(input, "a part for all rows, or one for each of " + std::to_string(args.rows) + " rows");
    }
    return lists;
  };
  ScoreOptions& options = args.options;
  if (given[kHiddenScale] != nullptr) {
    requireShape(op_, "hidden_scale", *given[kHiddenScale], leading);
    args.hiddenScale = given[kHiddenScale]->data<const float>();
  }
  if (const Tensor* bias = given[kBias]) {
    if (bias->rank() == 0 || bias->dim(bias->rank() - 1) != args.vocabSize) {
      fail(kBias, "an inner size of " + std::to_string(args.vocabSize));
    }
    if (listsOf(kBias, 1) == 1) {
      args.bias = bias->data<const float>();
    } else {
      options.rowBias = bias->data<const float>();
    }
  }
  const auto rowOption = [&](int input) {
    if (given[input] == nullptr) return RowOption{};
    return RowOption{given[input]->data<const float>(), listsOf(input, 0) == 1 ? 0 : 1};
  };
  options.softCap = rowOption(kSoftCap);
  options.scale = rowOption(kScale);
  if (const Tensor* mask = given[kMask]) {
    const int64_t words = mask->rank() == 0 ? 0 : mask->dim(mask->rank() - 1);
    const int64_t end = args.vocabStart + args.vocabSize;
    if (words < (end + 31) / 32) {
      fail(kMask, "an inner size of at least " + std::to_string((end + 31) / 32) + " words, for ids up to " +
                      std::to_string(end));
    }
    options.maskStride = listsOf(kMask, 1) == 1 ? 0 : words;
    options.mask = mask->data<const uint32_t>();
  }
  const Tensor* ids = given[kAdjustIds];
  if (ids == nullptr) return tensors;
  AdjustOption& adjust = options.adjust;
  adjust.lists = listsOf(kAdjustIds, 1);
  adjust.entries = adjust.lists == 0 ? 0 : ids->size() / adjust.lists;
  if (adjust.entries == 0) return tensors;  // nothing to adjust
  require(adjust.entries <= INT32_MAX / 8, [&] {
    return std::string(op_) + ": input 'adjust_ids' must have fewer entries a row, but got shape " + ids->shape();
  });
  adjust.ids = ids->data<const int32_t>();
  for (const int input : {kAdjustRepetition, kAdjustAdd}) {
    if (given[input] == nullptr) continue;
    std::vector<int64_t> shape = ids->leadingShape();
    shape.push_back(ids->dim(ids->rank() - 1));
    requireShape(op_, kNames[input], *given[input], shape);
    (input == kAdjustAdd ? adjust.add : adjust.repetition) = given[input]->data<const float>();
  }
  return tensors;
}

}  // namespace lm_head
