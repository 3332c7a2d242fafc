// What the LM head kernels, CPU and CUDA, are given: raw pointers and sizes.
#pragma once

#include <cstdint>

#include "noise.h"
#include "score_options.h"

namespace lm_head {

enum class HeadFormat : int { kFloat32, kBfloat16, kFloat16, kBinary };

// Ids of each row of which it is asked how many others come before; without ids, of none.
struct RankOption {
  const int32_t* ids;   // [rows, count], as they are returned
  const float* scores;  // the same shape
  int64_t count;        // at most kMaxRankIds
  int32_t* ranks;       // the same shape
};
constexpr int64_t kMaxRankIds = 2048;

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
  DrawOption draw;  // k is 1 then, the value is the noisy score, and the id -1 where that is -inf
  RankOption rank;
  bool sumsAlone;  // nothing is made of the sums, they are what is wanted
  int64_t vocabStart;
  float* values;         // [rows, k]
  int32_t* indices;      // [rows, k]
  float* logSumExp;      // [rows], or null: log of the sum of exp of all scores of the row
  int32_t* logSumState;  // [rows, LogSum::kWords], or null: that sum itself, as ranks tell it each other (log_sum.h)

  // Whether nothing is asked for but the top k and the log-sum-exp of plain scores.
  bool isPlain() const { return !options.any() && !draw.wanted() && rank.ids == nullptr && !sumsAlone; }
  bool wantsLogSumExp() const { return logSumExp != nullptr || logSumState != nullptr; }
};

}  // namespace lm_head
