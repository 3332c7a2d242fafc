#include "pack_half_cpu.h"

#include <algorithm>

#include "cpu_math.h"
#include "parallel.h"

namespace lm_head {

void packHalfCpu(const PackHalfArgs& args) {
  parallelFor(threadsFor(args.rows * args.paddedColumns), args.rows, [&](int, int64_t begin, int64_t end) {
    const KeepDenormals keepDenormals;
    for (int64_t row = begin; row < end; ++row) {
      const float* x = args.x + row * args.rowStride;
      uint16_t* packed = args.packed + row * args.paddedColumns;
      for (int64_t column = 0; column < args.columns; ++column) {
        const float value = x[column * args.columnStride];
        packed[column] = args.bfloat16 ? roundToBfloat16(value) : roundToFloat16(value);
      }
      std::fill(packed + args.columns, packed + args.paddedColumns, uint16_t{0});
    }
  });
}

}  // namespace lm_head
