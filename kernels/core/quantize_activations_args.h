#pragma once

#include <cstdint>

namespace lm_head {

struct QuantizeActivationsArgs {
  const float* hidden;  // [rows, hiddenSize]
  int64_t rows;
  int64_t hiddenSize;
  int32_t* q;    // [rows, hiddenSize], in [-127, 127]
  float* scale;  // [rows]
};

}  // namespace lm_head
