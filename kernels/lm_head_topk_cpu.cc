// LmHeadTopK on the CPU: threads walk over tiles of ids and keep the k best of each row; their lists are merged in the
// end.
#include <algorithm>
#include <functional>
#include <vector>

#include "../cuda/common/order.h"
#include "cpu_math.h"
#include "lm_head_topk.h"
#include "lm_head_topk_scores.h"
#include "parallel.h"

namespace lm_head {
namespace {

// Rows that are scored together, so that lists stay small however many rows there are.
constexpr int kRowsPerPass = 16;

// The k best of the keys offered so far. Most keys fail one comparison; the others are collected and cut back now and
// then.
class RunningTopK {
 public:
  explicit RunningTopK(int64_t k) : k_(k) {}

  void offer(Key key) {
    if (key <= threshold_) return;
    keys_.push_back(key);
    if (static_cast<int64_t>(keys_.size()) >= 2 * k_ + 64) cutBack();
  }

  const std::vector<Key>& keys() const { return keys_; }

  std::vector<Key>& sorted() {
    cutBack();
    std::sort(keys_.begin(), keys_.end(), std::greater<Key>());
    return keys_;
  }

 private:
  void cutBack() {
    if (static_cast<int64_t>(keys_.size()) <= k_) return;
    std::nth_element(keys_.begin(), keys_.begin() + (k_ - 1), keys_.end(), std::greater<Key>());
    keys_.resize(k_);
    threshold_ = keys_.back();
  }

  int64_t k_;
  Key threshold_ = kWorstKey;
  std::vector<Key> keys_;
};

void scanRows(const LmHeadTopKArgs& args, const CpuScorer& scorer, int64_t firstRow, int rows, int threads) {
  std::vector<std::vector<RunningTopK>> lists(threads, std::vector<RunningTopK>(rows, RunningTopK(args.k)));
  const int64_t tiles = (args.vocabSize + kCpuTileVocab - 1) / kCpuTileVocab;
  parallelFor(threads, tiles, [&](int worker, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    std::vector<RunningTopK>& own = lists[worker];
    std::vector<float> scratch(scorer.scratchSize());
    float scores[kCpuTileVocab * kRowsPerPass];
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t firstId = tile * kCpuTileVocab;
      const int ids = static_cast<int>(std::min<int64_t>(kCpuTileVocab, args.vocabSize - firstId));
      scorer.score(firstId, ids, firstRow, rows, scratch.data(), scores);
      for (int i = 0; i < ids; ++i) {
        for (int row = 0; row < rows; ++row)
          own[row].offer(makeKey(scores[i * rows + row], static_cast<uint32_t>(firstId + i)));
      }
    }
  });
  for (int row = 0; row < rows; ++row) {
    RunningTopK& best = lists[0][row];
    for (int thread = 1; thread < threads; ++thread) {
      for (const Key key : lists[thread][row].keys()) best.offer(key);
    }
    const std::vector<Key>& keys = best.sorted();
    const int64_t out = (firstRow + row) * args.k;
    for (int64_t i = 0; i < args.k; ++i) {
      args.values[out + i] = keyValue(keys[i]);
      args.indices[out + i] = static_cast<int32_t>(keyId(keys[i]) + args.vocabStart);
    }
  }
}

}  // namespace

std::unique_ptr<CpuScorer> CpuScorer::create(const LmHeadTopKArgs& args) {
  return args.format == HeadFormat::kBinary ? createBinaryCpuScorer(args) : createDenseCpuScorer(args);
}

void lmHeadTopKCpu(const LmHeadTopKArgs& args) {
  const KeepDenormals keepDenormals;
  const std::unique_ptr<CpuScorer> scorer = CpuScorer::create(args);
  const int threads = threadsFor(std::min<int64_t>(args.rows, kRowsPerPass) * args.vocabSize * args.hiddenSize / 8);
  for (int64_t row = 0; row < args.rows; row += kRowsPerPass) {
    scanRows(args, *scorer, row, static_cast<int>(std::min<int64_t>(kRowsPerPass, args.rows - row)), threads);
  }
}

}  // namespace lm_head
