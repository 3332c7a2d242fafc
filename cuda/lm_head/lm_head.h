// Fused LM head on the GPU: scores of every row against the whole vocabulary, and the best k of them, in one sweep over
// the weights and without a buffer of logits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "../../kernels/core/lm_head_topk_args.h"

namespace lm_head {

// More than this many results take a sweep for each so many.
constexpr int kMaxKPerSweep = 2048;

// kPortable: what runs on every GPU from compute capability 8.0 on; kBest: also what only this GPU can do. Between
// paths, the last bits of dense scores may differ.
enum class Path { kBest, kPortable };

// How a call runs. Users keep the defaults; tests reach with it what is rare.
struct Tuning {
  Path path = Path::kBest;
  // Keys of a row that a block keeps at least, and that it has room for. 0: what suits the size.
  int keep = 0;
  int listCapacity = 0;
};

struct Plan;

// A call, planned once. cudaErrorNotSupported where a row of hidden is too long for a binary head on this device (more
// than some 60,000 columns on an H200).
class Call {
 public:
  static cudaError_t plan(const LmHeadTopKArgs& args, const Tuning& tuning, Call* call);
  Call();
  ~Call();

  // Bytes of scratch memory that it needs on the current device, 256-byte aligned.
  size_t scratchBytes() const;

  // Enqueues on `stream`; neither allocates nor synchronizes, so it can be captured in a CUDA graph. Every pointer of
  // the arguments is device memory; `hidden` and bias may have any float alignment, 16-bit and binary weights are
  // 16-byte aligned.
  cudaError_t launch(void* scratch, cudaStream_t stream) const;

 private:
  std::unique_ptr<Plan> plan_;
  LmHeadTopKArgs args_{};
  Tuning tuning_;
  size_t scratchBytes_ = 0;
};

// The same for callers that ask for memory first.
cudaError_t lmHeadTopKScratchBytes(const LmHeadTopKArgs& args, size_t* bytes, const Tuning& tuning = {});
cudaError_t launchLmHeadTopK(const LmHeadTopKArgs& args, void* scratch, cudaStream_t stream, const Tuning& tuning = {});

}  // namespace lm_head
