// Options of a score on the GPU: the bits are those that kernels/core/finish.h makes on the host of the scores without
// options.
#include <cstring>

#include "../../kernels/core/finish.h"
#include "../../kernels/cpu/lm_head/adjust_index.h"
#include "lm_head_topk_checks.cuh"

namespace test {
namespace {

using lm_head::ScoreOptions;

enum Option { kRowBias = 1, kSoftCap = 2, kScale = 4, kAdjust = 8, kMask = 16, kOfRows = 32, kAll = 31 };

// Random options on host and device.
class RandomOptions {
 public:
  // `which`: bits of Option; with kOfRows, rows have their own.
  RandomOptions(const Shape& shape, int which, int64_t vocabStart, uint64_t seed) : random_(seed) {
    const int64_t lists = which & kOfRows ? shape.rows : 1, end = vocabStart + shape.vocab;
    const auto floats = [&](int64_t count, auto make) {
      std::vector<float> values(count);
      for (float& value : values) value = make();
      return values;
    };
    if (which & kRowBias)
      rowBias_ = floats(shape.rows * shape.vocab, [&] { return static_cast<float>(random_.below(7) - 3); });
    if (which & kSoftCap) {
      softCap_ = floats(lists, [&] { return random_.below(8) == 0 ? INFINITY : 0.5f + random_.below(64); });
    }
    if (which & kScale) scale_ = floats(lists, [&] { return 2.0f * random_.uniform(); });
    if (which & kAdjust) {
      const int64_t entries = 1 + random_.below(200);
      for (int64_t i = 0; i < lists * entries; ++i) {
        const int kind = random_.below(10);
        // Pads, ids of other shards, and ids that come again and again among the others.
        const int64_t id = kind == 0   ? -1
                           : kind == 1 ? end + random_.below(9)
                           : kind == 2 ? vocabStart - 1 - random_.below(9)
                           : kind == 3 ? vocabStart + random_.below(4) % shape.vocab
                                       : vocabStart + random_.next() % shape.vocab;
        ids_.push_back(static_cast<int32_t>(std::max<int64_t>(id, -1)));
      }
      add_ = floats(ids_.size(), [&] { return random_.below(20) == 0 ? -INFINITY : 4.0f * random_.uniform(); });
      repetition_ = floats(ids_.size(), [&] { return 1.25f + random_.uniform(); });
    }
    if (which & kMask) {
      const int64_t words = (end + 31) / 32;
      mask_.resize(lists * words);
      for (uint32_t& word : mask_) word = random_.next() | random_.next();
      // A row with hardly anything, and one without.
      if (lists > 2) std::fill(mask_.begin() + words, mask_.begin() + 2 * words, 0u);
      if (lists > 3) std::fill(mask_.begin() + 2 * words, mask_.begin() + 3 * words - 1, 0u);
    }
    const int64_t stride = lists == 1 ? 0 : 1;
    const auto set = [&](ScoreOptions& options, const float* rowBias, const float* softCap, const float* scale,
                         const int32_t* ids, const float* add, const float* repetition, const uint32_t* mask) {
      options.rowBias = rowBias;
      options.softCap = {softCap, stride};
      options.scale = {scale, stride};
      options.adjust = {ids, add, repetition, static_cast<int64_t>(ids_.size()) / lists, lists, {}};
      options.mask = mask;
      options.maskStride = stride * static_cast<int64_t>(mask_.size()) / lists;
    };
    const auto hostPointer = [](const auto& values) { return values.empty() ? nullptr : values.data(); };
    set(host, hostPointer(rowBias_), hostPointer(softCap_), hostPointer(scale_), hostPointer(ids_), hostPointer(add_),
        hostPointer(repetition_), hostPointer(mask_));
    hostIndex_ = std::make_unique<lm_head::CpuAdjustIndex>(host.adjust, vocabStart, shape.vocab);
    host.adjust.index = hostIndex_->index();
    set(device, upload(rowBias_, deviceRowBias_), upload(softCap_, deviceSoftCap_), upload(scale_, deviceScale_),
        upload(ids_, deviceIds_), upload(add_, deviceAdd_), upload(repetition_, deviceRepetition_),
        upload(mask_, deviceMask_));
  }

  ScoreOptions host{}, device{};

 private:
  template <class T>
  static const T* upload(const std::vector<T>& values, std::unique_ptr<DeviceArray<T>>& memory) {
    if (values.empty()) return nullptr;
    memory = std::make_unique<DeviceArray<T>>(values);
    return memory->data();
  }

  Random random_;
  std::vector<float> rowBias_, softCap_, scale_, add_, repetition_;
  std::vector<int32_t> ids_;
  std::vector<uint32_t> mask_;
  std::unique_ptr<lm_head::CpuAdjustIndex> hostIndex_;
  std::unique_ptr<DeviceArray<float>> deviceRowBias_, deviceSoftCap_, deviceScale_, deviceAdd_, deviceRepetition_;
  std::unique_ptr<DeviceArray<int32_t>> deviceIds_;
  std::unique_ptr<DeviceArray<uint32_t>> deviceMask_;
};

// Scores of all ids without options, from the GPU itself or, of whole numbers, from the definition.
std::vector<float> scoresOf(const LmHeadCase& all, int64_t row) {
  const Shape& shape = all.shape;
  std::vector<float> scores(shape.vocab);
  if (shape.k == shape.vocab) {
    for (int64_t i = 0; i < shape.vocab; ++i) {
      scores[all.indices[row * shape.k + i] - all.vocabStart] = all.values[row * shape.k + i];
    }
  } else {
    forAll(shape.vocab, [&](int64_t id) {
      scores[id] = shape.format == HeadFormat::kBinary ? binaryScore(all, row, id)
                                                       : static_cast<float>(denseScore(all, row, id).value);
    });
  }
  return scores;
}

void check(Shape shape, int which, int64_t vocabStart, uint64_t seed) {
  shape.logSumExp = seed % 2 == 0;
  current = shape.name() + " options " + std::to_string(which) + " vocabStart " + std::to_string(vocabStart);
  Shape whole = shape;
  whole.k = shape.integers ? 1 : shape.vocab;
  LmHeadCase all(whole, seed), some(shape, seed);
  all.vocabStart = some.vocabStart = vocabStart;
  all.upload();
  all.run();
  const RandomOptions options(shape, which, vocabStart, seed + 1000);
  some.options = options.device;
  some.upload();
  some.run();
  for (int64_t row = 0; row < shape.rows; row += std::max<int64_t>(1, shape.rows / 6)) {
    std::vector<float> scores = scoresOf(all, row);
    std::vector<Score> exact(shape.vocab);
    for (int64_t place = 0; place < shape.vocab; ++place) {
      const auto id = static_cast<int32_t>(vocabStart + place);
      scores[place] = withOptions(options.host, row, shape.vocab, place, id, scores[place]);
      exact[place] = {scores[place], 0.0};
    }
    // Ids that are returned, as keys have them.
    std::vector<lm_head::Key> keys(shape.vocab);
    for (int64_t place = 0; place < shape.vocab; ++place)
      keys[place] = lm_head::makeKey(scores[place], static_cast<uint32_t>(vocabStart + place));
    std::sort(keys.begin(), keys.end(), std::greater<lm_head::Key>());
    checkExact(some, row, keys);
    if (std::isfinite(*std::max_element(scores.begin(), scores.end()))) checkLogSumExp(some, row, exact);
    if (shape.logSumExp && lm_head::keyValue(keys[0]) == -INFINITY)
      expect(some.logSumExp[row] == -INFINITY, "logSumExp of masked ids alone in row " + std::to_string(row));
  }
}

// Whether 2 / b is rounded right for all floats b in [4, 2^27], where tanhRounded divides so.
__global__ void divideAll(int* wrong) {
  const uint32_t first = __float_as_uint(4.0f), last = __float_as_uint(0x1p27f);
  for (uint32_t bits = first + blockIdx.x * blockDim.x + threadIdx.x; bits <= last; bits += gridDim.x * blockDim.x) {
    const float b = __uint_as_float(bits);
    if (lm_head::divideMediumRounded(2.0f, b) != __fdiv_rn(2.0f, b)) atomicAdd(wrong, 1);
  }
}

__global__ void cappedOf(float* values, int count, float softCap) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] = lm_head::capped(values[i], softCap);
}

void floatMath() {
  current = "float math";
  DeviceArray<int> wrong(std::vector<int>{0});
  divideAll<<<1024, 256>>>(wrong.data());
  must(cudaGetLastError(), "divideAll");
  expect(wrong.get()[0] == 0, std::to_string(wrong.get()[0]) + " quotients are not rounded right");
  Random random(9);
  for (const float softCap : {0.5f, 30.0f, 1e-3f, 1e20f}) {
    std::vector<float> values(20000);
    for (float& value : values) value = softCap * std::ldexp(random.uniform(), random.below(40) - 32);
    for (const float value : {0.0f, -0.0f, INFINITY, -INFINITY, 1e-45f, 3e38f}) values.push_back(value);
    DeviceArray<float> device(values);
    cappedOf<<<1, 512>>>(device.data(), static_cast<int>(values.size()), softCap);
    must(cudaGetLastError(), "cappedOf");
    const std::vector<float> made = device.get();
    for (size_t i = 0; i < values.size(); ++i) {
      const float expected = lm_head::capped(values[i], softCap);
      expect(std::memcmp(&made[i], &expected, 4) == 0, "capped " + std::to_string(values[i]));
      const double exact = softCap * std::tanh(static_cast<double>(values[i]) / softCap);
      expect(std::fabs(expected - exact) <= 4 * 0x1p-23 * std::fabs(exact) + 1e-44,
             "inexact " + std::to_string(values[i]));
    }
  }
}

}  // namespace

void scoreOptions(Selection selection) {
  const bool sanitize = selection == Selection::kSanitize;
  if (!sanitize) floatMath();
  uint64_t seed = 1;
  for (const auto path : {lm_head::Path::kBest, lm_head::Path::kPortable}) {
    tuning.path = path;
    for (const HeadFormat format :
         {HeadFormat::kFloat32, HeadFormat::kBfloat16, HeadFormat::kFloat16, HeadFormat::kBinary}) {
      for (const int64_t rows :
           sanitize ? std::vector<int64_t>{5, 64} : std::vector<int64_t>{1, 3, 8, 16, 33, 64, 129}) {
        check({format, rows, 1000, 128, 50}, kAll | kOfRows, 0, ++seed);
        if (sanitize) continue;
        check({format, rows, 1000, 256, 7}, kAll, 77, ++seed);
        check({format, rows, 33, 128, 33, true}, kAll | kOfRows, 5, ++seed);
        for (const int option : {kRowBias, kSoftCap, kScale, kAdjust, kMask}) {
          ++seed;
          check({format, rows, 501, 128, 20}, option | (seed % 2 ? kOfRows : 0), seed % 40, seed);
        }
        if (selection == Selection::kQuick) continue;
        Shape large{format, rows, 40000, 128, 600};
        large.integers = true;
        check(large, kAll | kOfRows, 12345, ++seed);
      }
    }
  }
  tuning.path = lm_head::Path::kBest;
}

}  // namespace test
