#pragma once

#include <cstdint>

namespace lm_head {

// Slices of a row, each with its own candidate, a pair of int32: (order-preserving key, global id).
constexpr int kArgmaxSlices = 8;

enum class LogitsType : int { kFloat32, kBfloat16, kFloat16 };

struct LocalArgmaxArgs {
  LogitsType type;
  const void* logits;  // element (row, column) at row * rowStride + column * columnStride
  int64_t rows;
  int64_t vocabSize;  // columns from here on are padding and never read
  int64_t rowStride;
  int64_t columnStride;
  int64_t vocabStart;   // added to ids
  int32_t* candidates;  // [rows, kArgmaxSlices, 2]
};

}  // namespace lm_head
