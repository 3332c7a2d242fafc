// Draws, scores of given ids and their ranks on the GPU: the bits are those that plain loops on the host make of the
// scores of all ids.
#include <cstring>

#include "../../cuda/lm_head/scores.h"
#include "../../kernels/core/finish.h"
#include "lm_head_topk_checks.cuh"

namespace test {
namespace {

struct Call {
  Shape shape;
  int64_t count;  // ids a row
  int64_t vocabStart;
  bool masked;  // with a mask, a scale and a soft cap
  uint64_t seed;
};

bool sameBits(float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (a != a && b != b); }

// Random inputs of all three, on host and device.
class Decoding {
 public:
  explicit Decoding(const Call& call) : call(call), random_(call.seed), all_(wholeOf(call.shape), call.seed) {
    const Shape& shape = call.shape;
    all_.vocabStart = call.vocabStart;
    all_.upload();
    all_.run();
    const int64_t end = call.vocabStart + shape.vocab;
    for (int64_t i = 0; i < shape.rows * call.count; ++i) {
      const bool outside = random_.below(9) == 0;
      ids.push_back(
          static_cast<int32_t>(outside ? end + random_.below(50) : call.vocabStart + random_.next() % shape.vocab));
    }
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int kind = random_.below(6);
      temperature.push_back(kind == 0 ? 0.0f : kind == 1 ? INFINITY : 0.25f + 0.25f * random_.below(12));
      rowIds.push_back(random_.below(1000));
      for (int i = 0; i < 4; ++i) seeds.push_back(random_.next());
    }
    mask.resize(shape.rows * ((end + 31) / 32));
    for (uint32_t& word : mask) word = random_.next() | random_.next();
    if (shape.rows > 1) std::fill(mask.begin(), mask.begin() + (end + 31) / 32, 0u);
    scale = {0.7f};
    softCap = {9.0f};
    deviceMask_.set(mask);
    deviceScale_.set(scale);
    deviceSoftCap_.set(softCap);
    deviceIds_ = std::make_unique<DeviceArray<int32_t>>(ids);
  }

  // All ids' scores of a row, with options.
  std::vector<float> scoresOf(int64_t row) const {
    const Shape& shape = call.shape;
    std::vector<float> scores(shape.vocab);
    for (int64_t i = 0; i < shape.vocab; ++i)
      scores[all_.indices[row * shape.vocab + i] - call.vocabStart] = all_.values[row * shape.vocab + i];
    for (int64_t place = 0; place < shape.vocab; ++place) {
      scores[place] = withOptions(options(false), row, shape.vocab, place,
                                  static_cast<int32_t>(call.vocabStart + place), scores[place]);
    }
    return scores;
  }

  LmHeadTopKArgs args() const {
    LmHeadTopKArgs args = all_.args();
    args.options = options(true);
    args.k = 1;
    return args;
  }
  const int32_t* deviceIds() const { return deviceIds_->data(); }

  Call call;
  std::vector<int32_t> ids, rowIds;
  std::vector<uint32_t> seeds, mask;
  std::vector<float> temperature, scale, softCap;

 private:
  static Shape wholeOf(Shape shape) {
    shape.k = shape.vocab;
    return shape;
  }

  lm_head::ScoreOptions options(bool onDevice) const {
    lm_head::ScoreOptions options{};
    if (!call.masked) return options;
    options.softCap = {onDevice ? deviceSoftCap_.data() : softCap.data(), 0};
    options.scale = {onDevice ? deviceScale_.data() : scale.data(), 0};
    options.mask = onDevice ? deviceMask_.data() : mask.data();
    options.maskStride = static_cast<int64_t>(mask.size()) / call.shape.rows;
    return options;
  }

  Random random_;
  LmHeadCase all_;
  std::unique_ptr<DeviceArray<int32_t>> deviceIds_;
  DeviceArray<uint32_t> deviceMask_{200000};
  DeviceArray<float> deviceScale_{1}, deviceSoftCap_{1};
};

template <class Launch>
void runWithScratch(size_t bytes, Launch launch) {
  DeviceArray<unsigned char> scratch(bytes);
  must(cudaMemset(scratch.data(), 0xa5, bytes), "poison scratch");
  must(launch(scratch.data()), "launch");
  must(cudaDeviceSynchronize(), "run");
}

std::vector<float> checkScores(const Decoding& d) {
  DeviceArray<float> scores(d.ids.size());
  const lm_head::ScoresArgs args{d.args(), d.deviceIds(), d.call.count, scores.data()};
  size_t bytes = 0;
  must(lmHeadScoresScratchBytes(args, &bytes, tuning), "lmHeadScoresScratchBytes");
  runWithScratch(bytes, [&](void* scratch) { return launchLmHeadScores(args, scratch, nullptr, tuning); });
  const std::vector<float> got = scores.get();
  for (int64_t row = 0; row < d.call.shape.rows; ++row) {
    const std::vector<float> expected = d.scoresOf(row);
    for (int64_t i = 0; i < d.call.count; ++i) {
      const int64_t place = d.ids[row * d.call.count + i] - d.call.vocabStart;
      const bool here = place < d.call.shape.vocab;
      const float score = got[row * d.call.count + i], wanted = here ? expected[place] : NAN;
      expect(sameBits(score, wanted),
             "score " + std::to_string(score) + ", expected " + std::to_string(wanted) + at(row, i));
    }
  }
  return got;
}

void checkRanks(const Decoding& d, const std::vector<float>& scores) {
  DeviceArray<float> deviceScores(scores), logSumExp(d.call.shape.rows), values(d.call.shape.rows);
  DeviceArray<int32_t> ranks(d.ids.size()), indices(d.call.shape.rows);
  LmHeadTopKArgs args = d.args();
  args.rank = {d.deviceIds(), deviceScores.data(), d.call.count, ranks.data()};
  args.logSumExp = logSumExp.data();
  args.values = values.data();
  args.indices = indices.data();
  size_t bytes = 0;
  must(lmHeadTopKScratchBytes(args, &bytes, tuning), "lmHeadTopKScratchBytes");
  runWithScratch(bytes, [&](void* scratch) { return launchLmHeadTopK(args, scratch, nullptr, tuning); });
  const std::vector<int32_t> got = ranks.get();
  for (int64_t row = 0; row < d.call.shape.rows; ++row) {
    const std::vector<float> all = d.scoresOf(row);
    for (int64_t i = 0; i < d.call.count; ++i) {
      const int64_t at = row * d.call.count + i;
      const lm_head::Key key = lm_head::makeKey(scores[at], static_cast<uint32_t>(d.ids[at]));
      int32_t before = 0;
      for (int64_t place = 0; place < d.call.shape.vocab; ++place)
        before += lm_head::makeKey(all[place], static_cast<uint32_t>(d.call.vocabStart + place)) > key;
      expect(got[at] == before, "rank " + std::to_string(got[at]) + ", expected " + std::to_string(before) + " of id " +
                                    std::to_string(d.ids[at]) + test::at(row, i));
    }
  }
}

void checkDraw(const Decoding& d, bool rowsAlike) {
  const int64_t rows = d.call.shape.rows;
  DeviceArray<float> temperature(d.temperature), values(rows), logSumExp(rows), logSumExpOfTopK(rows);
  DeviceArray<uint32_t> seeds(d.seeds);
  DeviceArray<int32_t> rowIds(d.rowIds), indices(rows);
  LmHeadTopKArgs args = d.args();
  args.values = values.data();
  args.indices = indices.data();
  args.logSumExp = logSumExpOfTopK.data();
  const auto run = [&] {
    size_t bytes = 0;
    must(lmHeadTopKScratchBytes(args, &bytes, tuning), "lmHeadTopKScratchBytes");
    runWithScratch(bytes, [&](void* scratch) { return launchLmHeadTopK(args, scratch, nullptr, tuning); });
  };
  run();
  args.logSumExp = logSumExp.data();
  args.draw = {
      {temperature.data(), rowsAlike ? 0 : 1}, seeds.data(), rowsAlike ? 0 : 4, rowsAlike ? nullptr : rowIds.data(), 0};
  run();
  lm_head::DrawOption host = args.draw;
  host.temperature.values = d.temperature.data();
  host.seeds = d.seeds.data();
  host.rowIds = rowsAlike ? nullptr : d.rowIds.data();
  const std::vector<float> got = values.get(), sums = logSumExp.get(), sumsOfTopK = logSumExpOfTopK.get();
  const std::vector<int32_t> ids = indices.get();
  for (int64_t row = 0; row < rows; ++row) {
    const std::vector<float> all = d.scoresOf(row);
    lm_head::Key best = lm_head::kWorstKey;
    for (int64_t place = 0; place < d.call.shape.vocab; ++place) {
      const auto id = static_cast<uint32_t>(d.call.vocabStart + place);
      best = std::max(best, lm_head::makeKey(host.noisyScore(row, id, all[place]), id));
    }
    const float value = lm_head::keyValue(best);
    const int32_t id = value == -INFINITY ? -1 : static_cast<int32_t>(lm_head::keyId(best));
    expect(ids[row] == id, "drew " + std::to_string(ids[row]) + ", expected " + std::to_string(id) + at(row, 0));
    expect(lm_head::orderKey(got[row]) == lm_head::keyOrder(best), "noisy score" + at(row, 0));
    expect(ids[row] < 0 || all[ids[row] - d.call.vocabStart] != -INFINITY, "drew a masked id" + at(row, 0));
    expect(sameBits(sums[row], sumsOfTopK[row]), "logSumExp of a draw" + at(row, 0));
  }
}

void check(const Call& call) {
  current = call.shape.name() + " decoding, ids " + std::to_string(call.count) + " vocabStart " +
            std::to_string(call.vocabStart) + (call.masked ? " masked" : "");
  const Decoding decoding(call);
  checkRanks(decoding, checkScores(decoding));
  checkDraw(decoding, call.seed % 2 == 0);
}

}  // namespace

void decoding(Selection selection) {
  const bool sanitize = selection == Selection::kSanitize;
  uint64_t seed = 1;
  for (const auto path : {lm_head::Path::kBest, lm_head::Path::kPortable}) {
    tuning.path = path;
    for (const HeadFormat format :
         {HeadFormat::kFloat32, HeadFormat::kBfloat16, HeadFormat::kFloat16, HeadFormat::kBinary}) {
      for (const int64_t rows :
           sanitize ? std::vector<int64_t>{5, 70} : std::vector<int64_t>{1, 3, 8, 16, 33, 64, 129}) {
        check({{format, rows, 1000, 128, 1}, 1, 0, false, ++seed});
        check({{format, rows, 1000, 128, 1}, 3, 64, true, ++seed});
        if (sanitize) continue;
        check({{format, rows, 700, 256, 1}, rows > 33 ? 9 : 70, 77, seed % 3 == 0, ++seed});
        Shape integers{format, rows, 5000, 128, 1};
        integers.integers = true;
        if (rows < 64) check({integers, 2, 0, false, ++seed});
      }
      if (sanitize || format == HeadFormat::kBinary) continue;
      check({{format, 3, 300, 130, 1}, 5, 0, false, ++seed});
      if (format == HeadFormat::kFloat32) check({{format, 9, 300, 128, 1, false, true}, 5, 0, false, ++seed});
    }
    if (selection == Selection::kAll) {
      check({{HeadFormat::kBfloat16, 2, 6000, 128, 1}, 2048, 0, false, ++seed});
      check({{HeadFormat::kBinary, 2, 6000, 96, 1, false, false, 32}, 2048, 0, true, ++seed});
      // More rows than a launch serves.
      check({{HeadFormat::kBfloat16, 2100, 300, 128, 1}, 1, 0, false, ++seed});
      check({{HeadFormat::kBinary, 2100, 300, 128, 1}, 2, 64, true, ++seed});
      // More ids than copies of their weights have room for.
      check({{HeadFormat::kFloat32, 2, 3000, 8192, 1}, 1500, 0, false, ++seed});
    }
  }
  tuning.path = lm_head::Path::kBest;
}

}  // namespace test
