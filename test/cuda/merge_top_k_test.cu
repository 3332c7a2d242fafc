// Merging the sorted lists of several ranks, against a sort of all of them.
#include <algorithm>
#include <cmath>
#include <functional>

#include "../../cuda/lm_head/merge_ranks.h"
#include "../../kernels/core/log_sum.h"
#include "../../kernels/core/order.h"
#include "harness.cuh"

namespace test {
namespace {

using lm_head::Key;
using lm_head::LogSum;
using lm_head::LogSumTerm;

struct Shape {
  int64_t ranks, rows, k;
  int64_t vocab;  // ids of each rank but the last, which has `lastVocab`
  int64_t lastVocab;
  bool logSumExp;
};

float score(Random& random) {
  const int pick = random.below(400);
  if (pick == 0) return NAN;
  if (pick == 1) return INFINITY;
  if (pick < 5) return -INFINITY;
  return static_cast<float>(random.below(40) - 20) / 4;
}

bool sameFloat(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void runCase(const Shape& shape, bool lost) {
  const auto [ranks, rows, k, vocab, lastVocab, withLogSumExp] = shape;
  current = "merge top k, ranks " + std::to_string(ranks) + " rows " + std::to_string(rows) + " k " +
            std::to_string(k) + " vocab " + std::to_string(vocab) + ", last " + std::to_string(lastVocab) +
            (lost ? ", a rank lost" : "");
  Random random(ranks * 1000 + rows * 100 + k + vocab);
  const int64_t blockBytes = lm_head::TopKBlock::bytes(rows, k, withLogSumExp);
  DeviceArray<char> blocks(ranks * blockBytes);
  std::vector<std::vector<Key>> all(rows);
  std::vector<LogSum> sums(rows, LogSum::empty());  // over the ranks from the last to the first
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t ids = rank + 1 == ranks ? lastVocab : vocab, size = std::min(k, ids);
    std::vector<float> values;
    std::vector<int32_t> indices, states(rows * LogSum::kWords);
    for (int64_t row = 0; row < rows; ++row) {
      std::vector<Key> keys;
      LogSum sum = LogSum::empty();
      for (int64_t id = 0; id < ids; ++id) {
        const float value = score(random);
        keys.push_back(lm_head::makeKey(value, static_cast<uint32_t>(rank * vocab + id)));
        sum.add(LogSumTerm{value, 1.0f});
      }
      std::sort(keys.begin(), keys.end(), std::greater<Key>());
      all[row].insert(all[row].end(), keys.begin(), keys.end());
      sums[row] = sum + sums[row];
      sum.store(states.data() + row * LogSum::kWords);
      for (int64_t i = 0; i < size; ++i) {
        values.push_back(lm_head::keyValue(keys[i]));
        indices.push_back(static_cast<int32_t>(lm_head::keyId(keys[i])));
      }
    }
    const lm_head::TopKBlock block(blocks.data() + rank * blockBytes, rows, k, withLogSumExp);
    const DeviceArray<float> deviceValues(values);
    const DeviceArray<int32_t> deviceIndices(indices);
    if (withLogSumExp) {
      must(cudaMemcpy(block.logSumState, states.data(), states.size() * 4, cudaMemcpyHostToDevice), "logSumState");
    }
    must(lm_head::launchPadTopK(deviceValues.data(), deviceIndices.data(), size, rows, k, block, nullptr), "pad");
    must(cudaDeviceSynchronize(), "pad");
  }

  DeviceArray<float> outValues(rows * k), outLogSumExp(rows);
  DeviceArray<int32_t> outIndices(rows * k);
  int* failed = nullptr;
  int64_t* done = nullptr;
  must(cudaMallocHost(&failed, sizeof(int)), "cudaMallocHost");
  must(cudaMallocHost(&done, sizeof(int64_t)), "cudaMallocHost");
  *failed = lost;
  *done = 0;
  lm_head::MergeTopKArgs args{};
  args.blocks = blocks.data();
  args.ranks = ranks;
  args.rows = rows;
  args.k = k;
  args.values = outValues.data();
  args.indices = outIndices.data();
  args.logSumExp = withLogSumExp ? outLogSumExp.data() : nullptr;
  args.gather = {failed, done, 3};
  must(lm_head::launchMergeTopK(args, nullptr), "merge");
  must(cudaDeviceSynchronize(), "merge");
  expect(*done == (lost ? 0 : 3), "step " + std::to_string(*done) + " is done");
  cudaFreeHost(failed);
  cudaFreeHost(done);

  const std::vector<float> values = outValues.get();
  const std::vector<float> logSumExp = withLogSumExp ? outLogSumExp.get() : std::vector<float>();
  const std::vector<int32_t> indices = outIndices.get();
  for (int64_t row = 0; row < rows; ++row) {
    std::sort(all[row].begin(), all[row].end(), std::greater<Key>());
    for (int64_t i = 0; i < k; ++i) {
      const bool real = i < static_cast<int64_t>(all[row].size());
      const float value = lost ? NAN : real ? lm_head::keyValue(all[row][i]) : -INFINITY;
      const int32_t id = lost || !real ? -1 : static_cast<int32_t>(lm_head::keyId(all[row][i]));
      expect(indices[row * k + i] == id && sameFloat(values[row * k + i], value),
             "place " + std::to_string(i) + ": (" + std::to_string(values[row * k + i]) + ", " +
                 std::to_string(indices[row * k + i]) + "), expected (" + std::to_string(value) + ", " +
                 std::to_string(id) + ") in row " + std::to_string(row));
    }
    if (!withLogSumExp) continue;
    // The integers are the same on both sides; only the two logarithms may differ in the last place.
    const float expected = lost ? NAN : sums[row].value();
    const bool close = std::fabs(logSumExp[row] - expected) <= 1e-6f * std::max(1.0f, std::fabs(expected));
    expect(close || sameFloat(logSumExp[row], expected),
           "logSumExp " + std::to_string(logSumExp[row]) + ", expected " + std::to_string(expected));
  }
}

}  // namespace

void mergeTopK(Selection selection) {
  const std::vector<int64_t> allRanks = {1, 2, 3, 4, 8};
  for (const int64_t ranks : selection == Selection::kSanitize ? std::vector<int64_t>{3} : allRanks) {
    for (const bool logSumExp : {false, true}) {
      runCase({ranks, 1, 1, 100, 100, logSumExp}, false);
      runCase({ranks, 5, 50, 100, 37, logSumExp}, false);
      runCase({ranks, 3, 50, 100, 0, logSumExp}, false);
      runCase({ranks, 2, 50, 5, 3, logSumExp}, false);  // fewer ids than k
      runCase({ranks, 64, 7, 20, 20, logSumExp}, false);
      runCase({ranks, 5, 50, 100, 37, logSumExp}, true);
      if (selection == Selection::kSanitize) continue;
      runCase({ranks, 2, 2048, 3000, 3000, logSumExp}, false);
      runCase({ranks, 1, 3000, 4000, 2500, logSumExp}, false);
    }
  }
}

}  // namespace test
