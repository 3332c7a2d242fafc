// LmHeadTopK of a vocabulary that is cut into shards, one a rank: each finds its own top k, all lists meet, and every
// rank merges them.
#include <algorithm>

#include "../../cuda/lm_head/merge_ranks.h"
#include "../group/tensor_parallel_group_gpu.h"
#include "lm_head_topk.h"
#include "stream.h"

namespace lm_head {
namespace {

// The rank's own lists, to its block of the gather.
void fillBlock(const OpContext& context, const LmHeadTopKArgs& args, const TopKBlock& block) {
  LmHeadTopKArgs own = args;
  own.values = block.values;
  own.indices = block.indices;
  own.logSumExp = nullptr;
  own.logSumState = block.logSumState;
  if (args.k <= args.vocabSize) return lmHeadTopKGpu(context, own);
  // Lists that this rank's vocabulary cannot fill.
  own.k = args.vocabSize;
  const int64_t entries = args.rows * own.k;
  const Tensor lists = context.temporary(std::max<int64_t>(entries, 1) * (sizeof(float) + sizeof(int32_t)));
  own.values = lists.data<float>();
  own.indices = reinterpret_cast<int32_t*>(own.values + entries);
  if (own.k > 0) lmHeadTopKGpu(context, own);
  checkCuda(launchPadTopK(own.values, own.indices, own.k, args.rows, args.k, block, streamOf(context)), "LmHeadTopK");
}

}  // namespace

void lmHeadTopKGroupGpu(const OpContext& context, const LmHeadTopKArgs& args, TensorParallelGroup& group) {
  auto& ranks = static_cast<GpuTensorParallelGroup&>(group);
  const bool logSumExp = args.logSumExp != nullptr;
  const int64_t bytes = TopKBlock::bytes(args.rows, args.k, logSumExp);
  const Tensor blocks = context.temporary(ranks.worldSize() * bytes);
  fillBlock(context, args, TopKBlock(blocks.data<char>() + ranks.rank() * bytes, args.rows, args.k, logSumExp));
  const std::string details =
      std::to_string(args.rows) + " rows, k " + std::to_string(args.k) + (logSumExp ? ", logSumExp" : "");
  const cudaStream_t stream = streamOf(context);
  MergeTopKArgs merge{};
  const IdRange ids{args.vocabStart, args.vocabStart + args.vocabSize};
  merge.gather = ranks.allGather("LmHeadTopK", details, ids, blocks.data<void>(), bytes, stream);
  merge.blocks = blocks.data<void>();
  merge.ranks = ranks.worldSize();
  merge.rows = args.rows;
  merge.k = args.k;
  merge.values = args.values;
  merge.indices = args.indices;
  merge.logSumExp = args.logSumExp;
  checkCuda(launchMergeTopK(merge, stream), "LmHeadTopK");
}

}  // namespace lm_head
