// Ranks of given ids: what comes before and behind the sweep that counts.
#pragma once

#include <cuda_runtime_api.h>

#include "../../kernels/core/lm_head_topk_args.h"
#include "reductions/rank.cuh"

namespace lm_head {

// Sorts the ids that args.rank asks for; without any it does nothing. Comes behind another prologue, which has waited
// for all that was enqueued before, and runs beside it.
cudaError_t launchSortTargets(const LmHeadTopKArgs& args, const RankTargets& targets, cudaStream_t stream);

// What the sweep has counted, to args.rank.ranks.
cudaError_t launchWriteRanks(const LmHeadTopKArgs& args, const RankTargets& targets, cudaStream_t stream);

}  // namespace lm_head
