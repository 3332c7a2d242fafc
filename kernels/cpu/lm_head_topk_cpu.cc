// LmHeadTopK on the CPU: threads walk over blocks of ids and keep the k best of each row; their lists are merged in the
// end, and so are the blocks' sums of exponentials.
#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "../core/order.h"
#include "exp_sum_cpu.h"
#include "../tensorflow/lm_head_topk.h"
#include "lm_head_topk_scores.h"
#include "parallel.h"

namespace lm_head {
namespace {

// Ids whose scores are kept for a while: whole tiles, the same ones however many threads there are.
constexpr int kBlock = kExpSumBlock;
static_assert(kBlock % kCpuTileVocab == 0, "whole tiles");

// The k best of the keys offered so far. Most keys fail one comparison; the others are collected and cut back now and
// then.
class RunningTopK {
 public:
  explicit RunningTopK(int64_t k) : k_(k) {}

  // Scores of ids [firstId, firstId + ids), all larger than those offered before: a score equal to the worst that is
  // kept is no better.
  void offer(const float* scores, int ids, int64_t firstId) {
    constexpr int kTogether = 16;
    for (int first = 0; first < ids; first += kTogether) {
      const int count = std::min(kTogether, ids - first);
      bool any = false;
      for (int i = 0; i < count; ++i) any |= !(scores[first + i] <= thresholdValue_);
      if (!any) continue;
      for (int i = first; i < first + count; ++i) offer(makeKey(scores[i], static_cast<uint32_t>(firstId + i)));
    }
  }

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
    thresholdValue_ = keyValue(threshold_);
  }

  int64_t k_;
  Key threshold_ = kWorstKey;
  float thresholdValue_ = std::numeric_limits<float>::quiet_NaN();  // which every score passes
  std::vector<Key> keys_;
};

void scanRows(const LmHeadTopKArgs& args, const CpuScorer& scorer, int64_t firstRow, int rows, int threads) {
  std::vector<std::vector<RunningTopK>> lists(threads, std::vector<RunningTopK>(rows, RunningTopK(args.k)));
  const int64_t blocks = (args.vocabSize + kBlock - 1) / kBlock;
  std::vector<ExpSum> expSums(args.logSumExp == nullptr ? 0 : blocks * rows);  // [blocks, rows]
  parallelFor(threads, blocks, [&](int worker, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    std::vector<CacheLine> scratch(scorer.scratchLines(rows));
    std::vector<float> scores(rows * kBlock);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t firstId = block * kBlock;
      const int ids = static_cast<int>(std::min<int64_t>(kBlock, args.vocabSize - firstId));
      for (int first = 0; first < ids; first += kCpuTileVocab) {
        scorer.score(firstId + first, std::min(kCpuTileVocab, ids - first), firstRow, rows, scratch.data(),
                     scores.data() + first, kBlock);
      }
      for (int row = 0; row < rows; ++row) {
        const float* rowScores = scores.data() + row * kBlock;
        lists[worker][row].offer(rowScores, ids, firstId);
        if (args.logSumExp != nullptr) expSums[block * rows + row] = expSumOf(rowScores, ids);
      }
    }
  });
  for (int row = 0; row < rows; ++row) {
    if (args.logSumExp != nullptr) {
      args.logSumExp[firstRow + row] = logOfExpSums(expSums.data() + row, blocks, rows);
    }
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
  const int threads = threadsFor(std::min<int64_t>(args.rows, kCpuTileRows) * args.vocabSize * args.hiddenSize / 8);
  for (int64_t row = 0; row < args.rows; row += kCpuTileRows) {
    scanRows(args, *scorer, row, static_cast<int>(std::min<int64_t>(kCpuTileRows, args.rows - row)), threads);
  }
}

}  // namespace lm_head
