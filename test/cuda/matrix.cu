// The matrix: kernel times of many shapes, row counts, k and orders of scores. Each is verified before it is timed, all
// of its rows, and once more afterwards; what is wrong has no time. bench/trials.ts has the same list.
#include <memory>

#include "bench_head.cuh"
#include "bench_row.h"
#include "random_scores.cuh"
#include "score_orders.h"
#include "timing.cuh"

namespace test {
namespace {

struct HeadShape {
  int64_t vocab, hidden;
};

constexpr HeadShape kHeadShapes[] = {{30522, 384},   {32000, 2048},  {32000, 4096},  {50257, 768}, {128256, 2048},
                                     {151936, 1024}, {201088, 2880}, {248320, 5120}, {262144, 640}};
constexpr HeadFormat kFormats[] = {HeadFormat::kBfloat16, HeadFormat::kFloat16, HeadFormat::kFloat32,
                                   HeadFormat::kBinary};
constexpr int64_t kKs[] = {1, 50, 512, 2048};
constexpr int64_t kMostK = 2048, kMostRows = 256;

// A cell is replayed for about so long, nine times at most, and three times at least; a call that takes longer once.
constexpr float kCellUs = 20000;

Replays replaysFor(float us) {
  if (us > kCellUs) return {0, 1};
  return {1, std::min(9, std::max(3, static_cast<int>(kCellUs / std::max(us, 1.0f))))};
}

class HeadMatrix {
 public:
  HeadMatrix(HeadFormat format, const HeadShape& shape, bool json)
      : format_(format),
        shape_(shape),
        json_(json),
        head_(format, shape.vocab, shape.hidden),
        floorUs_(fastestRead(head_.data(), head_.bytes(), {1, 7})),
        hidden_(kMostRows * shape.hidden),
        values_(kMostRows * kMostK),
        indices_(kMostRows * kMostK) {
    must(cudaEventCreate(&begin_), "event");
    must(cudaEventCreate(&end_), "event");
  }
  ~HeadMatrix() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  HeadMatrix(const HeadMatrix&) = delete;
  HeadMatrix& operator=(const HeadMatrix&) = delete;

  void measure() {
    measureRandom();
    // From here on the first column of the head is no longer random.
    for (const NamedOrder& order : kScoreOrders) measureOrder(order);
  }

 private:
  void measureRandom() {
    Random random(1);
    std::vector<float> hidden(hidden_.size());
    for (float& value : hidden) value = random.uniform();
    hidden_.set(hidden);
    LmHeadTopKArgs args = head_.args();
    args.hidden = hidden_.data();
    const RandomScores scores(args, hidden, kMostRows);
    for (const int64_t rows : {1, 8, 64, 2, 4, 16, 32, 128, 256}) {
      for (const int64_t k : kKs) {
        measureCell("random", nullptr, rows, k,
                    [&] { return scores.faultOf(values_.data(), indices_.data(), rows, k); });
      }
    }
  }

  void measureOrder(const NamedOrder& order) {
    const InjectedScores scores(order.order, format_, shape_.vocab, kMostK);
    head_.setFirstColumn(scores.column());
    std::vector<float> hidden(hidden_.size(), 0.0f);
    for (int64_t row = 0; row < kMostRows; ++row) hidden[row * shape_.hidden] = hiddenOfRow(row);
    hidden_.set(hidden);
    std::unique_ptr<DeviceArray<float>> bias;
    if (!scores.bias().empty()) bias = std::make_unique<DeviceArray<float>>(scores.bias());
    for (const int64_t rows : {1, 8, 64}) {
      for (const int64_t k : kKs) {
        const auto fault = [&] { return faultOf(scores, rows, k); };
        measureCell(order.name, bias == nullptr ? nullptr : bias->data(), rows, k, fault);
      }
    }
  }

  std::string faultOf(const InjectedScores& scores, int64_t rows, int64_t k) const {
    std::vector<float> values(rows * k);
    std::vector<int32_t> indices(rows * k);
    must(cudaMemcpy(values.data(), values_.data(), values.size() * 4, cudaMemcpyDeviceToHost), "values");
    must(cudaMemcpy(indices.data(), indices_.data(), indices.size() * 4, cudaMemcpyDeviceToHost), "indices");
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t place = 0; place < k; ++place) {
        const int32_t id = indices[row * k + place], expectedId = scores.bestId(place);
        const float value = values[row * k + place], expected = scores.bestValue(place, row);
        if (id == expectedId && lm_head::orderKey(value) == lm_head::orderKey(expected)) continue;
        return "id " + std::to_string(id) + " with " + std::to_string(value) + ", expected " +
               std::to_string(expectedId) + " with " + std::to_string(expected) + ", in row " + std::to_string(row) +
               " at place " + std::to_string(place);
      }
    }
    return "";
  }

  // fault() says what is wrong with values_ and indices_; empty: nothing.
  template <class Fault>
  void measureCell(const char* data, const float* bias, int64_t rows, int64_t k, Fault fault) {
    LmHeadTopKArgs args = head_.args();
    args.rows = rows;
    args.k = k;
    args.hidden = hidden_.data();
    args.bias = bias;
    args.values = values_.data();
    args.indices = indices_.data();
    BenchRow row{formatName(format_), shape_.vocab, shape_.hidden, rows, k};
    row.data = data;
    row.bias = bias != nullptr;
    current = std::string("matrix, ") + row.format + " vocab " + std::to_string(shape_.vocab) + " hidden " +
              std::to_string(shape_.hidden) + " rows " + std::to_string(rows) + " k " + std::to_string(k) + " " + data;
    row.failed = timeCell(args, fault, &row);
    expect(row.failed.empty(), row.failed);
    row.print(json_);
  }

  template <class Fault>
  std::string timeCell(const LmHeadTopKArgs& args, Fault fault, BenchRow* row) {
    size_t scratchBytes = 0;
    const cudaError_t planned = lm_head::lmHeadTopKScratchBytes(args, &scratchBytes);
    if (planned != cudaSuccess) return cudaGetErrorString(planned);
    if (scratch_ == nullptr || scratch_->size() < scratchBytes) {
      scratch_.reset();
      scratch_ = std::make_unique<DeviceArray<unsigned char>>(scratchBytes);
    }
    // What an earlier cell has left there must not be what makes this one right.
    must(cudaMemset(scratch_->data(), 0xa5, scratchBytes), "poison scratch");
    forgetResults(args);
    const cudaError_t launched = launch(args);
    if (launched != cudaSuccess) {
      cudaGetLastError();  // it has been told, and is not an error of the next cell
      return cudaGetErrorString(launched);
    }
    std::string wrong = fault();
    if (!wrong.empty()) return wrong;
    // The first call of a kernel also loads it.
    if (launchUs_ > kCellUs) must(launch(args), "launch");

    forgetResults(args);
    const Timing timing = timeReplays(
        [&](cudaStream_t stream) { must(lm_head::launchLmHeadTopK(args, scratch_->data(), stream), "launch"); },
        replaysFor(launchUs_));
    wrong = fault();
    if (!wrong.empty()) return "after replays: " + wrong;
    row->us = timing.us;
    row->launches = timing.launches;
    row->floorUs = floorUs_;
    row->scratchBytes = static_cast<int64_t>(scratchBytes);
    return "";
  }

  // One call, and launchUs_, its time.
  cudaError_t launch(const LmHeadTopKArgs& args) {
    must(cudaEventRecord(begin_), "event");
    const cudaError_t error = lm_head::launchLmHeadTopK(args, scratch_->data(), nullptr);
    must(cudaEventRecord(end_), "event");
    must(cudaDeviceSynchronize(), "run");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin_, end_), "event");
    launchUs_ = ms * 1000;
    return error;
  }

  void forgetResults(const LmHeadTopKArgs& args) const {
    must(cudaMemset(values_.data(), 0xa5, args.rows * args.k * 4), "forget values");
    must(cudaMemset(indices_.data(), 0xa5, args.rows * args.k * 4), "forget indices");
  }

  HeadFormat format_;
  HeadShape shape_;
  bool json_;
  BenchHead head_;
  float floorUs_;
  DeviceArray<float> hidden_, values_;
  DeviceArray<int32_t> indices_;
  std::unique_ptr<DeviceArray<unsigned char>> scratch_;
  cudaEvent_t begin_, end_;
  float launchUs_ = 0;
};

}  // namespace

bool matrix(const MatrixSelection& selection, bool json) {
  const auto wanted = [&](HeadFormat format) {
    return selection.format.empty() || selection.format == formatName(format);
  };
  if (std::none_of(std::begin(kFormats), std::end(kFormats), wanted)) return false;
  int shapeNumber = 0;
  for (const HeadShape& shape : kHeadShapes) {
    if (shapeNumber++ % selection.parts != selection.part - 1) continue;
    for (const HeadFormat format : kFormats) {
      if (wanted(format)) HeadMatrix(format, shape, json).measure();
    }
  }
  return true;
}

}  // namespace test
