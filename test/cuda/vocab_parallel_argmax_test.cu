// The vocab-parallel argmax launchers against a plain scan over the concatenated logits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "../../cuda/argmax/vocab_parallel_argmax.h"
#include "../../kernels/core/order.h"
#include "harness.cuh"

namespace test {
namespace {

using lm_head::LogitsType;

template <class T>
T convert(float x);
template <>
float convert(float x) {
  return x;
}
template <>
__nv_bfloat16 convert(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__half convert(float x) {
  return __float2half_rn(x);
}

enum class Kind { kRandom, kTies, kAllMinusInfinity, kSpecial, kZeros, kAllNan, kDenormals };

float logit(Kind kind, Random& random) {
  switch (kind) {
    case Kind::kRandom:
      return 8 * random.uniform();
    case Kind::kTies:
      return static_cast<float>(random.below(3));
    case Kind::kAllMinusInfinity:
      return -INFINITY;
    case Kind::kZeros:
      return random.below(2) ? 0.0f : -0.0f;
    case Kind::kAllNan:
      return NAN;
    case Kind::kDenormals:
      return std::ldexp(static_cast<float>(random.below(5) - 2), -24);  // denormal in fp16
    case Kind::kSpecial: {
      const int pick = random.below(40000);
      return pick == 0 ? NAN : pick < 3 ? INFINITY : pick < 100 ? -INFINITY : static_cast<float>(random.below(7) - 3);
    }
  }
  return 0.0f;
}

// How a shard's logits lie in memory.
struct Layout {
  bool columnMajor;
  int64_t columnStep;  // row-major only: logits lie so far apart
  int64_t shift;       // elements in front of the first one: no 16-byte boundary
};

struct Shape {
  int64_t rows, vocab, shards;
  int64_t firstId;
};

// The shards of one vocabulary and the tokens that are right for them.
template <class T>
class Case {
 public:
  Case(LogitsType type, Kind kind, const Shape& shape, const Layout& layout)
      : shape_(shape),
        candidates_(shape.shards * shape.rows * 16),
        tokens_(shape.rows),
        expected_(shape.rows, lm_head::kWorstKey) {
    current = "vocab-parallel argmax, type " + std::to_string(static_cast<int>(type)) + " kind " +
              std::to_string(static_cast<int>(kind)) + " rows " + std::to_string(shape.rows) + " vocab " +
              std::to_string(shape.vocab) + " shards " + std::to_string(shape.shards) +
              (layout.columnMajor ? " column-major" : "") + " step " + std::to_string(layout.columnStep) + " shift " +
              std::to_string(layout.shift);
    Random random(shape.rows * 31 + shape.vocab + shape.shards);
    const int64_t rows = shape.rows;
    // Padded: the last shard may hold fewer ids, or none.
    const int64_t wide = (shape.vocab + shape.shards - 1) / shape.shards;
    for (int64_t shard = 0; shard < shape.shards; ++shard) {
      const int64_t first = shard * wide, real = std::clamp<int64_t>(shape.vocab - first, 0, wide);
      // What is padding would win if it were read.
      std::vector<T> logits(layout.shift + rows * wide * layout.columnStep, convert<T>(INFINITY));
      lm_head::LocalArgmaxArgs args{};
      args.type = type;
      args.rows = rows;
      args.vocabSize = real;
      args.rowStride = layout.columnMajor ? 1 : wide * layout.columnStep;
      args.columnStride = layout.columnMajor ? rows : layout.columnStep;
      args.vocabStart = shape.firstId + first;
      args.candidates = candidates_.data() + shard * rows * 16;
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < real; ++column) {
          const T value = convert<T>(logit(kind, random));
          logits[layout.shift + row * args.rowStride + column * args.columnStride] = value;
          const auto id = static_cast<uint32_t>(args.vocabStart + column);
          expected_[row] = std::max(expected_[row], lm_head::makeKey(static_cast<float>(value), id));
        }
      }
      arrays_.push_back(std::make_unique<DeviceArray<T>>(logits));
      args.logits = arrays_.back()->data() + layout.shift;
      shards_.push_back(args);
    }
  }

  // Each shard scanned, and the pick: what the ranks of a group do.
  void launch(cudaStream_t stream) const {
    for (const lm_head::LocalArgmaxArgs& shard : shards_) {
      must(lm_head::launchLocalArgmax(shard, stream), "launchLocalArgmax");
    }
    must(lm_head::launchPickFromCandidates(candidates_.data(), shape_.shards, shape_.rows, tokens_.data(),
                                           lm_head::GatherStep{}, stream),
         "launchPickFromCandidates");
  }

  void forget() const { must(cudaMemset(tokens_.data(), 0x77, shape_.rows * sizeof(int32_t)), "forget"); }

  void check() const {
    const std::vector<int32_t> got = tokens_.get();
    for (int64_t row = 0; row < shape_.rows; ++row) {
      const auto id = static_cast<int32_t>(lm_head::keyId(expected_[row]));
      expect(got[row] == id,
             "id " + std::to_string(got[row]) + ", expected " + std::to_string(id) + " in row " + std::to_string(row));
    }
  }

  void run() const {
    launch(nullptr);
    check();
    if (shape_.shards > 1) return;
    forget();
    must(lm_head::launchArgmax(shards_[0], tokens_.data(), nullptr), "launchArgmax");
    check();
  }

 private:
  Shape shape_;
  DeviceArray<int32_t> candidates_, tokens_;
  std::vector<lm_head::Key> expected_;
  std::vector<std::unique_ptr<DeviceArray<T>>> arrays_;
  std::vector<lm_head::LocalArgmaxArgs> shards_;
};

constexpr Layout kLayouts[] = {{false, 1, 0}, {false, 1, 1}, {false, 2, 0}, {true, 1, 0}, {true, 1, 1}};

template <class T>
void runType(LogitsType type, Selection selection) {
  if (selection == Selection::kSanitize) {
    for (const int64_t shards : {1, 3}) {
      for (const int64_t rows : {5, 8}) {
        for (const Layout& layout : kLayouts) Case<T>(type, Kind::kSpecial, {rows, 1025, shards, 0}, layout).run();
      }
    }
    return;
  }
  const bool quick = selection == Selection::kQuick;
  for (const Kind kind : {Kind::kRandom, Kind::kTies, Kind::kAllMinusInfinity, Kind::kSpecial, Kind::kZeros,
                          Kind::kAllNan, Kind::kDenormals}) {
    for (const int64_t shards : {1, 2, 3, 4, 8}) {
      for (const int64_t rows : {1, 5, 8}) {
        for (const int64_t vocab : {1, 9, 1025}) {
          for (const Layout& layout : kLayouts) Case<T>(type, kind, {rows, vocab, shards, 0}, layout).run();
        }
      }
      if (quick) continue;
      for (const Layout& layout : kLayouts) {
        Case<T>(type, kind, {3, 32001, shards, 0}, layout).run();
        Case<T>(type, kind, {16, 32001, shards, 0}, layout).run();
      }
    }
  }
  if (quick) return;
  for (const Layout& layout : kLayouts) {
    for (const int64_t rows : {1, 2, 4, 8, 33, 64}) Case<T>(type, Kind::kRandom, {rows, 131072, 4, 0}, layout).run();
    for (const int64_t rows : {1, 8}) Case<T>(type, Kind::kRandom, {rows, 131072, 1, 0}, layout).run();
    // Ids that float32 does not hold.
    Case<T>(type, Kind::kTies, {2, 32001, 2, (1 << 24) + 1}, layout).run();
    Case<T>(type, Kind::kRandom, {2, 32001, 2, INT32_MAX - 32001}, layout).run();
  }
}

// The same graph 50 times.
void runGraph() {
  for (const Layout& layout : kLayouts) {
    const Case<__nv_bfloat16> one(LogitsType::kBfloat16, Kind::kTies, {8, 32001, 4, 0}, layout);
    cudaStream_t stream;
    must(cudaStreamCreate(&stream), "stream");
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    one.launch(stream);
    cudaGraph_t graph;
    must(cudaStreamEndCapture(stream, &graph), "capture");
    cudaGraphExec_t executable;
    must(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
    for (int replay = 0; replay < 50; ++replay) {
      one.forget();
      must(cudaGraphLaunch(executable, stream), "replay");
      must(cudaStreamSynchronize(stream), "replay");
      one.check();
    }
    must(cudaGraphExecDestroy(executable), "destroy");
    must(cudaGraphDestroy(graph), "destroy");
    must(cudaStreamDestroy(stream), "destroy");
  }
}

// Behind a gather the pick says which step has ended, and has no token where a rank was lost.
void runGathered() {
  current = "vocab-parallel argmax, gathered";
  constexpr int64_t kRows = 9, kRanks = 2;
  std::vector<int32_t> pairs(kRanks * kRows * 16);
  for (int32_t i = 0; i < static_cast<int32_t>(pairs.size()); i += 2) {
    pairs[i] = i % 32;  // the last slice of the last rank is best
    pairs[i + 1] = i;
  }
  const DeviceArray<int32_t> candidates(pairs);
  DeviceArray<int32_t> tokens(kRows);
  int* failed = nullptr;
  int64_t* done = nullptr;
  must(cudaMallocHost(&failed, sizeof(int)), "cudaMallocHost");
  must(cudaMallocHost(&done, sizeof(int64_t)), "cudaMallocHost");
  for (const bool lost : {false, true}) {
    *failed = lost;
    *done = 0;
    must(lm_head::launchPickFromCandidates(candidates.data(), kRanks, kRows, tokens.data(), {failed, done, 7}, nullptr),
         "launchPickFromCandidates");
    must(cudaDeviceSynchronize(), "pick");
    expect(*done == (lost ? 0 : 7), "step " + std::to_string(*done) + " is done");
    const std::vector<int32_t> got = tokens.get();
    for (int64_t row = 0; row < kRows; ++row) {
      lm_head::Key best = lm_head::kWorstKey;
      for (int64_t rank = 0; rank < kRanks; ++rank) {
        for (int64_t slice = 0; slice < 8; ++slice) {
          const int64_t at = ((rank * kRows + row) * 8 + slice) * 2;
          best = std::max(best, lm_head::makeKey(pairs[at], static_cast<uint32_t>(pairs[at + 1])));
        }
      }
      const int32_t expected = lost ? -1 : static_cast<int32_t>(lm_head::keyId(best));
      expect(got[row] == expected, "id " + std::to_string(got[row]) + ", expected " + std::to_string(expected));
    }
  }
  cudaFreeHost(failed);
  cudaFreeHost(done);
}

}  // namespace

void vocabParallelArgmax(Selection selection) {
  runType<float>(LogitsType::kFloat32, selection);
  runType<__nv_bfloat16>(LogitsType::kBfloat16, selection);
  runType<__half>(LogitsType::kFloat16, selection);
  if (selection != Selection::kSanitize) runGraph();
  runGathered();
}

}  // namespace test
