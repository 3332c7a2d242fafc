#pragma once

#include <cstdint>

namespace lm_head {

struct PackHalfArgs {
  bool bfloat16;   // else float16
  const float* x;  // element (row, column) at row * rowStride + column * columnStride
  int64_t rows;
  int64_t columns;
  int64_t rowStride;
  int64_t columnStride;
  int64_t paddedColumns;  // of the output; even
  uint16_t* packed;       // [rows, paddedColumns]
};

}  // namespace lm_head
