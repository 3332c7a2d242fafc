// A call of the LM head: what lies where in scratch memory, and the launches.
#include <algorithm>

#include "../common/cuda_check.h"
#include "buffers.h"
#include "lm_head.h"
#include "merge.cuh"
#include "prologue/index_adjusted.h"
#include "rank.h"

namespace lm_head {
namespace {

cudaError_t launchMerge(const MergeParams& params, cudaStream_t stream) {
  int sortSize = 32;
  while (sortSize < params.k) sortSize *= 2;
  constexpr int kThreads = 1024;
  const int64_t blocks = params.rows * (params.logSumExp.terms == nullptr ? 1 : 2);
  return launchDependent(mergeKernel<kThreads>, dim3(static_cast<unsigned>(blocks)), kThreads, sortSize * sizeof(Key),
                         stream, params, sortSize);
}

cudaError_t launchRows(const Plan& plan, void* scratchMemory, cudaStream_t stream) {
  const LmHeadTopKArgs& args = plan.args;
  Scratch scratch(scratchMemory);
  const Buffers buffers(scratch, plan);
  SweepParams sweep = sweepParams(plan, buffers);
  MergeParams merge{};
  merge.rows = args.rows;
  merge.pool = buffers.pool;
  merge.kTotal = args.k;
  merge.vocabStart = args.vocabStart;
  merge.hidesMasked = args.draw.wanted();
  merge.values = args.values;
  merge.indices = args.indices;
  merge.logSumExps = args.logSumExp;
  merge.logSumStates = args.logSumState;
  // Merges leave the pool empty for the sweeps after the first.
  RETURN_IF_ERROR(plan.variant->prepare(plan, buffers.pool, buffers.hidden, stream));
  RETURN_IF_ERROR(launchIndexAdjusted(sweep.args, stream));
  RETURN_IF_ERROR(launchSortTargets(args, buffers.targets, stream));
  for (int64_t done = 0, sweeps = 0; done < args.k; done += plan.k, ++sweeps) {
    merge.k = sweep.topK.k = static_cast<int>(std::min<int64_t>(args.k - done, plan.k));
    merge.kBefore = done;
    merge.mayCut = plan.mayCut && plan.keep < merge.k;
    // Both merges write the last key taken; the sweep and its rescan read that of the sweep before.
    merge.bounds = buffers.bounds[sweeps % 2];
    sweep.topK.bounds = done == 0 ? nullptr : buffers.bounds[(sweeps + 1) % 2];
    sweep.targets = done == 0 ? buffers.targets : RankTargets{};
    sweep.logSumExp = merge.logSumExp = done == 0 && plan.logSumExp ? buffers.logSumExp : LogSumExpParams{};
    RETURN_IF_ERROR(plan.variant->sweep(plan, sweep, buffers.hidden, stream));
    RETURN_IF_ERROR(launchMerge(merge, stream));
    if (!merge.mayCut) continue;
    // Nearly always there is no row for these.
    SweepParams again = sweep;
    again.topK.rescan = true;
    again.logSumExp.terms = nullptr;
    again.targets = {};
    RETURN_IF_ERROR(plan.variant->sweep(plan, again, buffers.hidden, stream));
    MergeParams afterRescan = merge;
    afterRescan.afterRescan = true;
    afterRescan.logSumExp.terms = nullptr;
    RETURN_IF_ERROR(launchMerge(afterRescan, stream));
  }
  return launchWriteRanks(args, buffers.targets, stream);
}

size_t bytesOf(const Plan& plan) {
  Scratch counter(nullptr);
  const Buffers buffers(counter, plan);
  return counter.used();
}

LmHeadTopKArgs sliceRows(const LmHeadTopKArgs& args, int64_t begin) {
  LmHeadTopKArgs slice = args;
  slice.rows = std::min(args.rows - begin, kMaxRowsPerLaunch);
  slice.hidden = args.hidden + begin * args.hiddenSize;
  if (args.hiddenScale != nullptr) slice.hiddenScale = args.hiddenScale + begin;
  slice.options = args.options.ofRows(begin, slice.rows, args.vocabSize);
  slice.draw = args.draw.fromRow(begin);
  if (args.rank.ids != nullptr) {
    slice.rank.ids += begin * args.rank.count;
    slice.rank.scores += begin * args.rank.count;
    slice.rank.ranks += begin * args.rank.count;
  }
  slice.values = args.values + begin * args.k;
  slice.indices = args.indices + begin * args.k;
  if (args.logSumExp != nullptr) slice.logSumExp = args.logSumExp + begin;
  if (args.logSumState != nullptr) slice.logSumState = args.logSumState + begin * LogSum::kWords;
  return slice;
}

}  // namespace

Call::Call() = default;
Call::~Call() = default;

cudaError_t Call::plan(const LmHeadTopKArgs& args, const Tuning& tuning, Call* call) {
  call->args_ = args;
  call->tuning_ = tuning;
  call->plan_ = std::make_unique<Plan>();
  RETURN_IF_ERROR(Plan::make(sliceRows(args, 0), tuning, call->plan_.get()));
  call->scratchBytes_ = bytesOf(*call->plan_);
  const int64_t rest = args.rows % kMaxRowsPerLaunch;
  if (rest == 0 || args.rows < kMaxRowsPerLaunch) return cudaSuccess;
  // Fewer rows have more blocks each, and may so need more memory.
  Plan last;
  RETURN_IF_ERROR(Plan::make(sliceRows(args, args.rows - rest), tuning, &last));
  call->scratchBytes_ = std::max(call->scratchBytes_, bytesOf(last));
  return cudaSuccess;
}

size_t Call::scratchBytes() const { return scratchBytes_; }

cudaError_t Call::launch(void* scratch, cudaStream_t stream) const {
  RETURN_IF_ERROR(launchRows(*plan_, scratch, stream));
  for (int64_t begin = plan_->args.rows; begin < args_.rows; begin += kMaxRowsPerLaunch) {
    Plan plan;
    RETURN_IF_ERROR(Plan::make(sliceRows(args_, begin), tuning_, &plan));
    RETURN_IF_ERROR(launchRows(plan, scratch, stream));
  }
  return cudaSuccess;
}

cudaError_t lmHeadTopKScratchBytes(const LmHeadTopKArgs& args, size_t* bytes, const Tuning& tuning) {
  Call call;
  RETURN_IF_ERROR(Call::plan(args, tuning, &call));
  *bytes = call.scratchBytes();
  return cudaSuccess;
}

cudaError_t launchLmHeadTopK(const LmHeadTopKArgs& args, void* scratch, cudaStream_t stream, const Tuning& tuning) {
  Call call;
  RETURN_IF_ERROR(Call::plan(args, tuning, &call));
  return call.launch(scratch, stream);
}

}  // namespace lm_head
