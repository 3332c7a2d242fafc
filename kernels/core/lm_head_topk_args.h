// What the LM head kernels, CPU and CUDA, are given: raw pointers and sizes.
#pragma once

#include <cstdint>

#include "score_options.h"

namespace lm_head {

enum class HeadFormat : int { kFloat32, kBfloat16, kFloat16, kBinary };

struct LmHeadTopKArgs {
  HeadFormat format;
  int64_t rows;
  int64_t hiddenSize;
  int64_t vocabSize;
  int64_t k;            // 1 <= k <= vocabSize
  const float* hidden;  // [rows, hiddenSize]; binary: 16-byte aligned
  // binary, or null: hidden holds whole numbers in [-127, 127], and the scores of row r are hiddenScale[r] times theirs
  const float* hiddenScale;
  // float32: element (id, column) at id * weightRowStride + column * weightColumnStride.
  // bfloat16, float16: 16-bit elements, rows of weightRowStride elements (a multiple of 8), zeros behind hiddenSize.
  // binary: tiles of bits and scales, see binary_layout.h; 16-byte aligned.
  const void* weight;
  int64_t weightRowStride;
  int64_t weightColumnStride;
  int64_t groupSize;  // binary: columns that share a scale; a multiple of 32 that divides hiddenSize
  const float* bias;  // [vocabSize] or null
  ScoreOptions options;
  int64_t vocabStart;
  float* values;         // [rows, k]
  int32_t* indices;      // [rows, k]
  float* logSumExp;      // [rows], or null: log of the sum of exp of all scores of the row
  int32_t* logSumState;  // [rows, LogSum::kWords], or null: that sum itself, as ranks tell it each other (log_sum.h)

  bool wantsLogSumExp() const { return logSumExp != nullptr || logSumState != nullptr; }
};

}  // namespace lm_head
