#include <algorithm>

#include "cpu_math.h"
#include "pack_half.h"

namespace lm_head {

void packHalfCpu(const PackHalfArgs& args) {
#pragma omp parallel
  {
    const KeepDenormals keepDenormals;
#pragma omp for schedule(static)
    for (int64_t row = 0; row < args.rows; ++row) {
      const float* x = args.x + row * args.rowStride;
      uint16_t* packed = args.packed + row * args.paddedColumns;
      for (int64_t column = 0; column < args.columns; ++column) {
        const float value = x[column * args.columnStride];
        packed[column] = args.bfloat16 ? roundToBfloat16(value) : roundToFloat16(value);
      }
      std::fill(packed + args.columns, packed + args.paddedColumns, uint16_t{0});
    }
  }
}

}  // namespace lm_head
