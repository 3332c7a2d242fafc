// The vocab-parallel argmax launchers against a plain scan over the concatenated logits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "../../cuda/common/order.h"
#include "../../cuda/vocab_parallel_argmax.h"
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

enum class Kind { kRandom, kTies, kAllMinusInfinity, kSpecial, kZeros };

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
    case Kind::kSpecial: {
      const int pick = random.below(40000);
      return pick == 0 ? NAN : pick < 3 ? INFINITY : pick < 100 ? -INFINITY : static_cast<float>(random.below(7) - 3);
    }
  }
  return 0.0f;
}

template <class T>
void runCase(LogitsType type, Kind kind, int64_t rows, int64_t vocab, int64_t shards, bool columnMajor,
             int64_t columnStep) {
  current = "vocab-parallel argmax, type " + std::to_string(static_cast<int>(type)) + " kind " +
            std::to_string(static_cast<int>(kind)) + " rows " + std::to_string(rows) + " vocab " +
            std::to_string(vocab) + " shards " + std::to_string(shards) + (columnMajor ? " column-major" : "") +
            " step " + std::to_string(columnStep);
  Random random(rows * 31 + vocab + shards);
  const int64_t wide = (vocab + shards - 1) / shards;  // padded: the last shard may hold fewer ids, or none
  std::vector<lm_head::Key> expected(rows, lm_head::kWorstKey);
  DeviceArray<int32_t> candidates(shards * rows * 16), tokens(rows);
  std::vector<std::unique_ptr<DeviceArray<T>>> arrays;
  for (int64_t shard = 0; shard < shards; ++shard) {
    const int64_t first = shard * wide, real = std::clamp<int64_t>(vocab - first, 0, wide);
    std::vector<T> logits(rows * wide * columnStep, convert<T>(INFINITY));  // padding would win if it were read
    lm_head::LocalArgmaxArgs args{type,
                                  nullptr,
                                  rows,
                                  real,
                                  columnMajor ? 1 : wide * columnStep,
                                  columnMajor ? rows : columnStep,
                                  first,
                                  candidates.data() + shard * rows * 16};
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < real; ++column) {
        const T value = convert<T>(logit(kind, random));
        logits[row * args.rowStride + column * args.columnStride] = value;
        expected[row] =
            std::max(expected[row], lm_head::makeKey(static_cast<float>(value), static_cast<uint32_t>(first + column)));
      }
    }
    arrays.push_back(std::make_unique<DeviceArray<T>>(logits));
    args.logits = arrays.back()->data();
    must(lm_head::launchLocalArgmax(args, nullptr), "launchLocalArgmax");
  }
  must(lm_head::launchPickFromCandidates(candidates.data(), shards, rows, tokens.data(), nullptr),
       "launchPickFromCandidates");
  const std::vector<int32_t> got = tokens.get();
  for (int64_t row = 0; row < rows; ++row) {
    const auto id = static_cast<int32_t>(lm_head::keyId(expected[row]));
    expect(got[row] == id,
           "id " + std::to_string(got[row]) + ", expected " + std::to_string(id) + " in row " + std::to_string(row));
  }
}

template <class T>
void runType(LogitsType type, Selection selection) {
  if (selection == Selection::kSanitize) {
    runCase<T>(type, Kind::kRandom, 5, 3001, 2, false, 1);
    runCase<T>(type, Kind::kTies, 2, 3001, 3, true, 1);
    return;
  }
  for (const Kind kind : {Kind::kRandom, Kind::kTies, Kind::kAllMinusInfinity, Kind::kSpecial, Kind::kZeros}) {
    for (const int64_t shards : {1, 2, 3, 4, 8}) {
      for (const int64_t rows : {1, 5}) {
        for (const int64_t vocab : {1, 9, 32001}) {
          runCase<T>(type, kind, rows, vocab, shards, false, 1);
          runCase<T>(type, kind, rows, vocab, shards, true, 1);
          runCase<T>(type, kind, rows, vocab, shards, false, 2);
        }
      }
    }
  }
}

}  // namespace

void vocabParallelArgmax(Selection selection) {
  runType<float>(LogitsType::kFloat32, selection);
  runType<__nv_bfloat16>(LogitsType::kBfloat16, selection);
  runType<__half>(LogitsType::kFloat16, selection);
}

}  // namespace test
