// The CPU scan and pick of the vocab-parallel argmax in every type of logits; TensorFlow.js itself has no 16-bit
// tensors.
//
// usage: vocab_parallel_argmax_cpu_test   prints "N checks, M failed"; exit code 1 where one failed
#include "../../kernels/cpu/vocab_parallel_argmax_cpu.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace {

using lm_head::LocalArgmaxArgs;
using lm_head::LogitsType;

int checks = 0, failures = 0;

void expect(bool condition, const std::string& what) {
  ++checks;
  if (condition) return;
  if (++failures <= 20) std::printf("FAILED %s\n", what.c_str());
}

// The value of bits with so many bits of exponent and mantissa, from the definition.
double value(uint32_t bits, int exponentBits, int mantissaBits) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const uint32_t exponent = bits >> mantissaBits & ((1u << exponentBits) - 1),
                 mantissa = bits & ((1u << mantissaBits) - 1);
  const double sign = bits >> (exponentBits + mantissaBits) & 1 ? -1.0 : 1.0;
  if (exponent == (1u << exponentBits) - 1)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  const double fraction = std::ldexp(mantissa, -mantissaBits);
  return sign *
         std::ldexp(exponent == 0 ? fraction : 1.0 + fraction, static_cast<int>(exponent == 0 ? 1 : exponent) - bias);
}

double valueOf(LogitsType type, uint32_t bits) {
  if (type == LogitsType::kFloat32) return value(bits, 8, 23);
  return type == LogitsType::kBfloat16 ? value(bits, 8, 7) : value(bits, 5, 10);
}

// NaN, then the larger value; of equals, which the zeros are, the one that came first.
bool isBetter(double a, double b) { return std::isnan(a) ? !std::isnan(b) : a > b; }

struct Layout {
  bool columnMajor;
  int64_t columnStep;
};

template <class T>
void run(LogitsType type, int64_t rows, int64_t vocab, const Layout& layout, bool onlyFinite) {
  constexpr int64_t kFirstId = (1 << 24) + 1;
  std::mt19937 random(static_cast<uint32_t>(rows * 1000 + vocab));
  const int64_t wide = vocab + 3;  // padding, NaN, which would win if it were read
  const int64_t rowStride = layout.columnMajor ? 1 : wide * layout.columnStep;
  const int64_t columnStride = layout.columnMajor ? rows : layout.columnStep;
  std::vector<T> logits(rows * wide * layout.columnStep, static_cast<T>(~T{0}));
  std::vector<int64_t> best(rows, 0);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < vocab; ++column) {
      T bits = static_cast<T>(random());
      while (onlyFinite && !std::isfinite(valueOf(type, bits))) bits = static_cast<T>(random());
      // Few values, so that there are ties.
      if (random() % 2 == 0) bits = static_cast<T>(bits & ~(static_cast<T>(~T{0}) >> 4));
      logits[row * rowStride + column * columnStride] = bits;
      const T bestBits = logits[row * rowStride + best[row] * columnStride];
      if (isBetter(valueOf(type, bits), valueOf(type, bestBits))) best[row] = column;
    }
  }
  std::vector<int32_t> candidates(rows * lm_head::kArgmaxSlices * 2), tokens(rows);
  LocalArgmaxArgs args{};
  args.type = type;
  args.logits = logits.data();
  args.rows = rows;
  args.vocabSize = vocab;
  args.rowStride = rowStride;
  args.columnStride = columnStride;
  args.vocabStart = kFirstId;
  args.candidates = candidates.data();
  lm_head::localArgmaxCpu(args);
  lm_head::pickFromCandidatesCpu(candidates.data(), 1, rows, tokens.data());
  for (int64_t row = 0; row < rows; ++row) {
    expect(tokens[row] == kFirstId + best[row], "type " + std::to_string(static_cast<int>(type)) + " vocab " +
                                                    std::to_string(vocab) + " row " + std::to_string(row) + ": " +
                                                    std::to_string(tokens[row]) + ", expected " +
                                                    std::to_string(kFirstId + best[row]));
  }
}

template <class T>
void runType(LogitsType type) {
  for (const Layout& layout : {Layout{false, 1}, Layout{true, 1}, Layout{false, 2}}) {
    for (const int64_t vocab : {1, 2, 7, 9, 100, 32001}) {
      for (const bool onlyFinite : {false, true}) run<T>(type, vocab < 1000 ? 64 : 3, vocab, layout, onlyFinite);
    }
  }
}

}  // namespace

int main() {
  runType<uint32_t>(LogitsType::kFloat32);
  runType<uint16_t>(LogitsType::kBfloat16);
  runType<uint16_t>(LogitsType::kFloat16);
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures != 0;
}
