// What the main loops of binary heads have in common: quantized hidden in shared memory, and the stream of weights.
#pragma once

#include "binary_scores.cuh"
#include "binary_stream.cuh"

namespace lm_head {

// kProducers: threads behind the workers, where there is bulk copying to do.
template <class Stream_, int kHiddenRows, HiddenForm kForm, int kProducers = 32>
class BinaryMainloop {
 public:
  using Params = BinaryParams;
  using Stream = Stream_;
  static constexpr bool kStartsEarly = true;
  static constexpr int kRows = kHiddenRows;
  static constexpr int kWorkers = Stream::kWorkers, kThreads = kWorkers + (Stream::kBulkCopies ? kProducers : 0);
  static constexpr int kTileVocab = Stream::kTileVocab, kUnitIds = Stream::kUnitIds;
  static constexpr int kSeedsOf = kHiddenRows >= 8 && Stream::kWarpIds == Stream::kUnitIds ? kTileVocab : 0;
  static constexpr bool kDynamicTiles = Stream::kDynamicTiles, kDealtTiles = false;

  static __host__ __device__ size_t sharedBytes(const BinaryLayout& layout) {
    return Stream::sharedBytes(layout, hiddenOf(layout).bytes());
  }
  __device__ size_t sharedBytes() const { return sharedBytes(layout_); }

  __device__ BinaryMainloop(const SweepParams& sweep, const Params& params, unsigned char* shared, int64_t rowBegin,
                            int rows)
      : args_(sweep.args),
        layout_{sweep.args.hiddenSize, sweep.args.groupSize},
        stream_(sweep, shared, hiddenOf(layout_).bytes(), rowBegin),
        rows_(rows),
        blocks_(static_cast<int>(layout_.blocks())),
        shared_(shared),
        params_(params),
        rowBegin_(rowBegin) {
    stream_.start();
  }

  __device__ void produce() {
    if constexpr (Stream::kBulkCopies) stream_.copyAll(shared_, hiddenSource(), hiddenOf(layout_).bytes());
  }
  __device__ void startWork() {
    waitForPreviousKernel();
    if constexpr (Stream::kBulkCopies) {
      stream_.waitForHidden();
    } else {
      hiddenOf(layout_).template load<kWorkers>(shared_, hiddenSource());
      syncWorkers<kWorkers>();
    }
  }
  __device__ bool serves(int) const { return true; }
  __device__ int64_t tileAfter(int64_t index) const { return stream_.tileAfter(index); }

 protected:
  static __host__ __device__ BinaryHidden hiddenOf(const BinaryLayout& layout) { return {kRows, layout, kForm}; }
  __device__ const float* rowScales() const { return hiddenOf(layout_).scales(shared_); }

  // All workers: emits a fragment's scores.
  template <class Reductions, int kPairs>
  __device__ __forceinline__ void emit(Reductions& reductions, const IdPair& ids, float (&sums)[kPairs][2],
                                       int unit) const {
    const float* scales = rowScales();
    reductions.emitFragment(ids, sums, unit, [&](int row) { return RowFinish{scales[row], true}; });
  }

  const LmHeadTopKArgs& args_;
  const BinaryLayout layout_;
  Stream stream_;
  const int rows_, blocks_;
  unsigned char* const shared_;

 private:
  __device__ const unsigned char* hiddenSource() const {
    return params_.hidden + rowBegin_ / kRows * hiddenOf(layout_).bytes();
  }

  const Params& params_;
  const int64_t rowBegin_;
};

}  // namespace lm_head
