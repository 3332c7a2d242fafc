#include "../../cuda/argmax/vocab_parallel_argmax.h"
#include "../group/tensor_parallel_group_gpu.h"
#include "stream.h"
#include "vocab_parallel_argmax.h"

namespace lm_head {

void localArgmaxGpu(const OpContext& context, const LocalArgmaxArgs& args) {
  checkCuda(launchLocalArgmax(args, streamOf(context)), "LocalArgmaxCandidates");
}

void pickFromCandidatesGpu(const OpContext& context, const int32_t* candidates, int64_t ranks, int64_t rows,
                           int32_t* tokens) {
  const cudaStream_t stream = streamOf(context);
  checkCuda(launchPickFromCandidates(candidates, ranks, rows, tokens, GatherStep{}, stream), "PickFromCandidates");
}

void argmaxGpu(const OpContext& context, const LocalArgmaxArgs& args, int32_t* tokens) {
  checkCuda(launchArgmax(args, tokens, streamOf(context)), "VocabParallelArgmax");
}

void groupArgmaxGpu(const OpContext& context, const LocalArgmaxArgs& args, TensorParallelGroup& group,
                    int32_t* tokens) {
  auto& ranks = static_cast<GpuTensorParallelGroup&>(group);
  const cudaStream_t stream = streamOf(context);
  const int64_t blockInts = args.rows * kArgmaxSlices * 2;
  LocalArgmaxArgs own = args;
  own.candidates += ranks.rank() * blockInts;
  checkCuda(launchLocalArgmax(own, stream), "VocabParallelArgmax");
  const IdRange ids{args.vocabStart, args.vocabStart + args.vocabSize};
  const GatherStep step = ranks.allGather("VocabParallelArgmax", std::to_string(args.rows) + " rows", ids,
                                          args.candidates, blockInts * static_cast<int64_t>(sizeof(int32_t)), stream);
  checkCuda(launchPickFromCandidates(args.candidates, ranks.worldSize(), args.rows, tokens, step, stream),
            "VocabParallelArgmax");
}

}  // namespace lm_head
