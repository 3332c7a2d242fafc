// Kernel times of the LM head, verified before they are timed, beside the fastest read of the same bytes. And what a
// call of the launcher costs its thread. bench/trials.ts has the same list of shapes, for the peers.
#include <algorithm>
#include <chrono>
#include <map>

#include "bench_head.cuh"
#include "bench_row.h"
#include "naive_scores.cuh"
#include "timing.cuh"

namespace test {
namespace {

constexpr int64_t kMostRows = 64;

enum class Extra { kNone, kBias, kLogSumExp };

struct BenchCase {
  int64_t rows, k;
  Extra extra = Extra::kNone;
};

// The calls of one head.
class HeadBenchmark {
 public:
  HeadBenchmark(HeadFormat format, int64_t vocab, int64_t hidden, bool json)
      : head_(format, vocab, hidden),
        json_(json),
        floorUs_(fastestRead(head_.data(), head_.bytes())),
        hidden_(uniform(kMostRows * hidden)),
        deviceHidden_(hidden_),
        bias_(vocab),
        logSumExp_(kMostRows) {
    must(cudaMemset(bias_.data(), 0, vocab * 4), "bias");
  }

  void measure(const BenchCase& c) {
    DeviceArray<float> values(c.rows * c.k);
    DeviceArray<int32_t> indices(c.rows * c.k);
    LmHeadTopKArgs args = head_.args();
    args.rows = c.rows;
    args.k = c.k;
    args.hidden = deviceHidden_.data();
    args.bias = c.extra == Extra::kBias ? bias_.data() : nullptr;
    args.logSumExp = c.extra == Extra::kLogSumExp ? logSumExp_.data() : nullptr;
    args.values = values.data();
    args.indices = indices.data();
    size_t scratchBytes = 0;
    must(lm_head::lmHeadTopKScratchBytes(args, &scratchBytes), "scratch");
    DeviceArray<unsigned char> scratch(scratchBytes);
    must(lm_head::launchLmHeadTopK(args, scratch.data(), nullptr), "launch");
    BenchRow row{formatName(args.format), args.vocabSize, args.hiddenSize, c.rows, c.k};
    row.bias = c.extra == Extra::kBias;
    row.logSumExp = c.extra == Extra::kLogSumExp;
    if (isRight(args, values, indices)) {
      const Timing timing = timeReplays(
          [&](cudaStream_t stream) { must(lm_head::launchLmHeadTopK(args, scratch.data(), stream), "launch"); });
      row.us = timing.us;
      row.launches = timing.launches;
      row.floorUs = floorUs_;
      row.scratchBytes = static_cast<int64_t>(scratchBytes);
    } else {
      row.failed = "a wrong result";
    }
    row.print(json_);
  }

 private:
  static std::vector<float> uniform(int64_t count) {
    Random random(1);
    std::vector<float> values(count);
    for (float& value : values) value = random.uniform();
    return values;
  }

  // The last row.
  bool isRight(const LmHeadTopKArgs& args, const DeviceArray<float>& values, const DeviceArray<int32_t>& indices) {
    const int64_t row = args.rows - 1;
    if (naive_.count(row) == 0) naive_.emplace(row, NaiveScores(args, hidden_, row));
    const int failuresBefore = failures;
    naive_.at(row).check(values.get(), indices.get(), args.k);
    return failures == failuresBefore;
  }

  BenchHead head_;
  bool json_;
  float floorUs_;
  std::vector<float> hidden_;
  DeviceArray<float> deviceHidden_, bias_, logSumExp_;
  std::map<int64_t, NaiveScores> naive_;  // by row
};

void benchFormat(HeadFormat format, int64_t vocab, int64_t hidden, bool json) {
  current = "benchmark, format " + std::string(formatName(format)) + " vocab " + std::to_string(vocab);
  HeadBenchmark benchmark(format, vocab, hidden, json);
  for (const int64_t k : {1, 50, 512, 2048}) {
    for (const int64_t rows : {1, 8, 64}) benchmark.measure({rows, k});
  }
  for (const int64_t rows : {2, 4, 16, 32}) benchmark.measure({rows, 50});
  for (const int64_t rows : {1, 8, 64}) {
    benchmark.measure({rows, 50, Extra::kBias});
    benchmark.measure({rows, 50, Extra::kLogSumExp});
  }
}

// Host time of a call, planning included, where the GPU has next to nothing to do. Calls come in batches, each behind a
// synchronization, so that none waits for a full queue.
void benchLaunch(HeadFormat format, bool json) {
  LmHeadCase c({format, 1, 64, 128, 50});
  c.upload();
  c.run();
  std::vector<double> times;
  for (int batch = 0; batch < 50; ++batch) {
    for (int call = 0; call < 20; ++call) {
      const auto begin = std::chrono::steady_clock::now();
      size_t scratchBytes = 0;
      must(lm_head::lmHeadTopKScratchBytes(c.args(), &scratchBytes), "scratch");
      c.launch();
      times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    must(cudaDeviceSynchronize(), "run");
  }
  std::sort(times.begin(), times.end());
  const char* layout =
      json ? "{\"op\":\"lm_head_topk_launch\",\"format\":\"%s\",\"vocab\":%lld,\"hidden\":%lld,\"k\":%lld,"
             "\"rows\":%lld,\"us\":%.2f}\n"
           : "%-8s vocab %lld hidden %lld k %4lld rows %2lld %8.1f us of host time a launch\n";
  const Shape& shape = c.shape;
  std::printf(layout, formatName(format), static_cast<long long>(shape.vocab), static_cast<long long>(shape.hidden),
              static_cast<long long>(shape.k), static_cast<long long>(shape.rows), times[times.size() / 2]);
  std::fflush(stdout);
}

}  // namespace

void benchmark(bool json) {
  for (const HeadFormat format :
       {HeadFormat::kBfloat16, HeadFormat::kFloat16, HeadFormat::kFloat32, HeadFormat::kBinary}) {
    benchLaunch(format, json);
    benchFormat(format, 248320, 5120, json);
    benchFormat(format, 128256, 4096, json);
    benchFormat(format, 50257, 768, json);
    benchFormat(format, 30522, 384, json);
  }
}

}  // namespace test
