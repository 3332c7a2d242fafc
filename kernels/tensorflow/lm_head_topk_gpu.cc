#include "../../cuda/lm_head/lm_head.h"
#include "../../cuda/lm_head/scores.h"
#include "lm_head_topk.h"
#include "stream.h"

namespace lm_head {
namespace {

void checkPlanned(cudaError_t planned, const LmHeadTopKArgs& args, const char* op) {
  require(planned != cudaErrorNotSupported, [&] {
    return std::string(op) +
           ": input 'hidden' must have rows that fit in this GPU's shared memory where the head is binary, but got " +
           std::to_string(args.hiddenSize) + " columns";
  });
  checkCuda(planned, op);
}

}  // namespace

void lmHeadTopKGpu(const OpContext& context, const LmHeadTopKArgs& args, const char* op) {
  Call call;
  checkPlanned(Call::plan(args, {}, &call), args, op);
  const Tensor scratch = context.temporary(static_cast<int64_t>(call.scratchBytes()));
  checkCuda(call.launch(scratch.data<void>(), streamOf(context)), op);
}

void lmHeadScoresGpu(const OpContext& context, const LmHeadTopKArgs& args, const int32_t* ids, int64_t count,
                     float* scores) {
  constexpr const char* kOp = "LmHeadScores";
  const ScoresArgs wanted{args, ids, count, scores};
  size_t bytes = 0;
  checkPlanned(lmHeadScoresScratchBytes(wanted, &bytes), args, kOp);
  const Tensor scratch = context.temporary(static_cast<int64_t>(bytes));
  checkCuda(launchLmHeadScores(wanted, scratch.data<void>(), streamOf(context)), kOp);
}

}  // namespace lm_head
