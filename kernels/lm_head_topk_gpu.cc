#include "../cuda/lm_head_topk.h"
#include "lm_head_topk.h"
#include "stream.h"

namespace lm_head {

void lmHeadTopKGpu(const OpContext& context, const LmHeadTopKArgs& args) {
  size_t bytes = 0;
  checkCuda(lmHeadTopKScratchBytes(args, &bytes), "LmHeadTopK");
  const Tensor scratch = context.temporary(static_cast<int64_t>(bytes));
  checkCuda(launchLmHeadTopK(args, scratch.data<void>(), streamOf(context)), "LmHeadTopK");
}

}  // namespace lm_head
