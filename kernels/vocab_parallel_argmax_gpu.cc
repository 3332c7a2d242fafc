#include "../cuda/vocab_parallel_argmax.h"
#include "stream.h"
#include "vocab_parallel_argmax.h"

namespace lm_head {

void localArgmaxGpu(const OpContext& context, const LocalArgmaxArgs& args) {
  checkCuda(launchLocalArgmax(args, streamOf(context)), "LocalArgmaxCandidates");
}

void pickFromCandidatesGpu(const OpContext& context, const int32_t* candidates, int64_t ranks, int64_t rows,
                           int32_t* tokens) {
  checkCuda(launchPickFromCandidates(candidates, ranks, rows, tokens, streamOf(context)), "PickFromCandidates");
}

}  // namespace lm_head
