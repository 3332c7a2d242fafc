// Kernel times of the LM head, verified before they are timed; and a plain read of the same bytes. And what a call of
// the launcher costs its thread.
#include <algorithm>
#include <chrono>
#include <map>

#include "naive_scores.cuh"
#include "timing.cuh"

namespace test {
namespace {

__global__ void fillRandom(uint32_t* data, int64_t count, uint32_t andMask, uint32_t orMask) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9ull;
    data[i] = (static_cast<uint32_t>(x >> 29) & andMask) | orMask;
  }
}

// Scales of 2^-7 to 1 in place of the random words behind the bits of each tile.
__global__ void fillScales(uint32_t* data, lm_head::BinaryLayout layout) {
  uint32_t* tile = data + blockIdx.x * layout.tileWords();
  for (int64_t i = layout.bitWords() + threadIdx.x; i < layout.tileWords(); i += blockDim.x)
    tile[i] = (tile[i] & 0x0fff0fffu) | 0x20002000u;
}

void benchFormat(HeadFormat format, int64_t vocab, int64_t hidden, bool json) {
  current = "benchmark, format " + std::to_string(static_cast<int>(format)) + " vocab " + std::to_string(vocab);
  const bool binary = format == HeadFormat::kBinary;
  const lm_head::BinaryLayout layout{hidden, 128};
  const int64_t tiles = lm_head::BinaryLayout::tiles(vocab);
  const int64_t bytes =
      binary ? tiles * layout.tileWords() * 4 : vocab * hidden * (format == HeadFormat::kFloat32 ? 4 : 2);
  DeviceArray<uint32_t> weight(bytes / 4);
  // Random bits, with exponents that keep the numbers in about 2^-7 .. 1.
  if (format == HeadFormat::kFloat32) fillRandom<<<1024, 256>>>(weight.data(), bytes / 4, 0xbdffffffu, 0x3c000000u);
  if (format == HeadFormat::kBfloat16) fillRandom<<<1024, 256>>>(weight.data(), bytes / 4, 0xbdffbdffu, 0x3c003c00u);
  if (format == HeadFormat::kFloat16) fillRandom<<<1024, 256>>>(weight.data(), bytes / 4, 0xafffafffu, 0x20002000u);
  if (binary) {
    fillRandom<<<1024, 256>>>(weight.data(), bytes / 4, 0xffffffffu, 0);
    fillScales<<<static_cast<unsigned>(tiles), 256>>>(weight.data(), layout);
  }
  DeviceArray<uint32_t> sink(1);
  const float floor = medianMicroseconds([&](cudaStream_t stream) {
    readAll<<<132 * 8, 512, 0, stream>>>(reinterpret_cast<uint4*>(weight.data()), bytes / 16, sink.data());
  });
  Random random(1);
  std::vector<float> values(64 * hidden);
  for (float& value : values) value = random.uniform();
  DeviceArray<float> hiddenArray(values);
  DeviceArray<float> bias(vocab), logSumExp(64);
  must(cudaMemset(bias.data(), 0, vocab * 4), "bias");
  std::map<int64_t, NaiveScores> naive;
  const auto measure = [&](int64_t rows, int64_t k, bool withBias, bool withLogSumExp) {
    DeviceArray<float> outValues(rows * k);
    DeviceArray<int32_t> outIndices(rows * k);
    LmHeadTopKArgs args{};
    args.format = format;
    args.rows = rows;
    args.hiddenSize = hidden;
    args.vocabSize = vocab;
    args.k = k;
    args.hidden = hiddenArray.data();
    args.weight = weight.data();
    args.weightRowStride = hidden;
    args.weightColumnStride = 1;
    args.groupSize = 128;
    args.bias = withBias ? bias.data() : nullptr;
    args.values = outValues.data();
    args.indices = outIndices.data();
    args.logSumExp = withLogSumExp ? logSumExp.data() : nullptr;
    size_t scratchBytes = 0;
    must(lm_head::lmHeadTopKScratchBytes(args, &scratchBytes), "scratch");
    DeviceArray<unsigned char> scratch(scratchBytes);
    must(lm_head::launchLmHeadTopK(args, scratch.data(), nullptr), "launch");
    const int64_t row = rows - 1;
    if (naive.count(row) == 0) naive.emplace(row, NaiveScores(args, values, row));
    naive.at(row).check(outValues.get(), outIndices.get(), k);
    const float us = medianMicroseconds(
        [&](cudaStream_t stream) { must(lm_head::launchLmHeadTopK(args, scratch.data(), stream), "launch"); });
    const char* layout = json ? "{\"op\":\"lm_head_topk\",\"format\":\"%s\",\"vocab\":%lld,\"hidden\":%lld,\"k\":%lld,"
                                "\"rows\":%lld,\"bias\":%s,"
                                "\"logSumExp\":%s,\"us\":%.2f,\"floorUs\":%.2f,\"scratchBytes\":%zu}\n"
                              : "%-8s vocab %lld hidden %lld k %4lld rows %2lld bias %-5s logSumExp %-5s %8.1f us, "
                                "floor %7.1f us, scratch %zu bytes\n";
    std::printf(layout, formatName(format), static_cast<long long>(vocab), static_cast<long long>(hidden),
                static_cast<long long>(k), static_cast<long long>(rows), withBias ? "true" : "false",
                withLogSumExp ? "true" : "false", us, floor, scratchBytes);
    std::fflush(stdout);
  };
  for (const int64_t k : {1, 50, 512, 2048}) {
    for (const int64_t rows : {1, 8}) measure(rows, k, false, false);
  }
  for (const int64_t rows : {2, 4, 16, 32, 64}) measure(rows, 50, false, false);
  for (const int64_t rows : {1, 8, 64}) {
    measure(rows, 50, true, false);
    measure(rows, 50, false, true);
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
  }
}

}  // namespace test
