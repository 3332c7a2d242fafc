// What a rank of a vocab-parallel step does beside communicating: scan one shard, pick. Verified before it is timed.
#include <cuda_bf16.h>

#include <algorithm>

#include "../../cuda/argmax/vocab_parallel_argmax.h"
#include "../../kernels/core/order.h"
#include "timing.cuh"

namespace test {
namespace {

constexpr int64_t kVocab = 32768;

void verify(const std::vector<__nv_bfloat16>& logits, const std::vector<int32_t>& tokens) {
  for (size_t row = 0; row < tokens.size(); ++row) {
    lm_head::Key best = lm_head::kWorstKey;
    for (int64_t column = 0; column < kVocab; ++column) {
      const float value = __bfloat162float(logits[row * kVocab + column]);
      best = std::max(best, lm_head::makeKey(value, static_cast<uint32_t>(column)));
    }
    expect(tokens[row] == static_cast<int32_t>(lm_head::keyId(best)), "a wrong token in row " + std::to_string(row));
  }
}

void print(const char* op, int64_t rows, float us, float floorUs, bool json) {
  const char* layout = json ? "{\"op\":\"%s\",\"format\":\"bfloat16\",\"vocab\":%lld,\"rows\":%lld,\"us\":%.2f,"
                              "\"floorUs\":%.2f,\"scratchBytes\":%lld}\n"
                            : "%-24s bfloat16 vocab %lld rows %2lld %8.2f us, floor %7.2f us, scratch %lld bytes\n";
  std::printf(layout, op, static_cast<long long>(kVocab), static_cast<long long>(rows), us, floorUs,
              static_cast<long long>(rows) * lm_head::kArgmaxSlices * 8);
  std::fflush(stdout);
}

void measure(int64_t rows, bool json) {
  current = "benchmark, vocab-parallel argmax, rows " + std::to_string(rows);
  Random random(rows);
  std::vector<__nv_bfloat16> logits(rows * kVocab);
  for (__nv_bfloat16& logit : logits) logit = __float2bfloat16_rn(8 * random.uniform());
  const DeviceArray<__nv_bfloat16> array(logits);
  DeviceArray<int32_t> candidates(rows * lm_head::kArgmaxSlices * 2), tokens(rows);
  lm_head::LocalArgmaxArgs args{};
  args.type = lm_head::LogitsType::kBfloat16;
  args.logits = array.data();
  args.rows = rows;
  args.vocabSize = kVocab;
  args.rowStride = kVocab;
  args.columnStride = 1;
  args.candidates = candidates.data();
  const auto scanAndPick = [&](cudaStream_t stream) {
    must(lm_head::launchLocalArgmax(args, stream), "scan");
    must(lm_head::launchPickFromCandidates(candidates.data(), 1, rows, tokens.data(), {}, stream), "pick");
  };
  const auto whole = [&](cudaStream_t stream) { must(lm_head::launchArgmax(args, tokens.data(), stream), "argmax"); };
  const float floor = fastestRead(array.data(), rows * kVocab * 2);
  for (const bool oneKernel : {false, true}) {
    must(cudaMemset(tokens.data(), 0x77, rows * sizeof(int32_t)), "forget");
    if (oneKernel) {
      whole(nullptr);
    } else {
      scanAndPick(nullptr);
    }
    verify(logits, tokens.get());
    const float us = (oneKernel ? timeReplays(whole) : timeReplays(scanAndPick)).us;
    print(oneKernel ? "argmax" : "vocab_parallel_argmax", rows, us, floor, json);
  }
}

}  // namespace

void vocabParallelArgmaxBenchmark(bool json) {
  for (const int64_t rows : {1, 2, 4, 8, 64}) measure(rows, json);
}

}  // namespace test
