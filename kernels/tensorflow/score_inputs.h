// The optional inputs of ops that score a head: what options make of a score. An op has them in this order, each as a
// list of 0 or 1 tensors whose length is attribute num_<name>.
#pragma once

#include <string>
#include <vector>

#include "../core/lm_head_topk_args.h"
#include "tf_api.h"

namespace lm_head {

class ScoreInputs {
 public:
  // For defineOp.
  static std::vector<std::string> inputs();
  static std::vector<std::string> attributes();

  ScoreInputs(const char* op, const OpAttributes& attributes);

  bool hasHiddenScale() const { return has_[kHiddenScale]; }

  // The tensors of a call; they have to outlive what `setArgs` has set.
  struct Tensors {
    std::vector<Tensor> all;
  };

  // Reads inputs from number `first` on and sets what args has for them. args knows rows, vocabSize and vocabStart.
  Tensors setArgs(const OpContext& context, int first, const std::vector<int64_t>& leading, LmHeadTopKArgs& args) const;

 private:
  enum Input { kHiddenScale, kBias, kSoftCap, kScale, kAdjustIds, kAdjustRepetition, kAdjustAdd, kMask, kInputs };
  static const char* const kNames[kInputs];
  static bool isInt(int input) { return input == kAdjustIds || input == kMask; }

  const char* op_;
  bool has_[kInputs] = {};
};

}  // namespace lm_head
