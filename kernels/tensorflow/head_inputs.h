// What all ops share that score a head: hidden, the head, and what options make of a score.
#pragma once

#include <string>
#include <vector>

#include "../core/lm_head_topk_args.h"
#include "score_inputs.h"
#include "tf_api.h"

namespace lm_head {

class HeadInputs {
 public:
  // For defineOp; an op's own inputs and attributes come behind them.
  static std::vector<std::string> inputs(const std::vector<std::string>& own);
  static std::vector<std::string> attributes(const std::vector<std::string>& own);

  // `mayBeEmpty`: whether the head may have no ids, as a rank of a group may.
  HeadInputs(const char* op, const OpAttributes& attributes, bool mayBeEmpty);

  // The tensors of a call, and what follows from them; they have to outlive its args.
  struct Call {
    Tensor hidden{nullptr}, weight{nullptr};
    std::vector<Tensor> scores;
    std::vector<int64_t> leading;  // of hidden
    int next = 0;                  // number of the op's first own input
    LmHeadTopKArgs args{};

    // A shape that ends with `inner`.
    std::vector<int64_t> shapeWith(int64_t inner) const;
  };
  Call read(const OpContext& context) const;

 private:
  void setWeight(const Tensor& weight, LmHeadTopKArgs& args) const;

  const char* op_;
  HeadFormat format_;
  int64_t groupSize_;
  bool transposeWeight_;
  int64_t vocabStart_;
  int64_t vocabSize_;
  ScoreInputs scoreInputs_;
};

}  // namespace lm_head
