#pragma once

#include <cstdint>

namespace lm_head {

struct BinarizeHeadArgs {
  const float* weight;  // [rows, columns]
  int64_t rows;
  int64_t columns;    // a multiple of groupSize
  int64_t groupSize;  // a multiple of 32
  uint32_t* bits;     // [rows, columns / 32]; bit b of word w is column 32w+b, clear where the weight is below 0
  float* scales;      // [rows, columns / groupSize]; mean |weight|, summed in float64 in ascending order
};

}  // namespace lm_head
