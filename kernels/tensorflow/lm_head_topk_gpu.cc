#include "../../cuda/lm_head/lm_head.h"
#include "lm_head_topk.h"
#include "stream.h"

namespace lm_head {

void lmHeadTopKGpu(const OpContext& context, const LmHeadTopKArgs& args) {
  Call call;
  const cudaError_t planned = Call::plan(args, {}, &call);
  require(planned != cudaErrorNotSupported, [&] {
    return "LmHeadTopK: input 'hidden' must have rows that fit in this GPU's shared memory where the head is binary, "
           "but got " +
           std::to_string(args.hiddenSize) + " columns";
  });
  checkCuda(planned, "LmHeadTopK");
  const Tensor scratch = context.temporary(static_cast<int64_t>(call.scratchBytes()));
  checkCuda(call.launch(scratch.data<void>(), streamOf(context)), "LmHeadTopK");
}

}  // namespace lm_head
