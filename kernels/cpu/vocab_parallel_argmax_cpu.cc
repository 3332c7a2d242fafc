#include "vocab_parallel_argmax_cpu.h"

#include <algorithm>

#include "../core/order.h"
#include "cpu_math.h"

namespace lm_head {

namespace {

float widenFloat32(float x) { return x; }
float widenBfloat16(uint16_t bits) { return bitCast<float>(static_cast<uint32_t>(bits) << 16); }

template <class T, class Widen>
void scan(const LocalArgmaxArgs& args, Widen widen) {
  const int64_t sliceSize = (args.vocabSize + kArgmaxSlices - 1) / kArgmaxSlices;
  for (int64_t row = 0; row < args.rows; ++row) {
    const T* logits = static_cast<const T*>(args.logits) + row * args.rowStride;
    for (int64_t slice = 0; slice < kArgmaxSlices; ++slice) {
      const int64_t end = std::min((slice + 1) * sliceSize, args.vocabSize);
      Key best = kWorstKey;
      for (int64_t column = slice * sliceSize; column < end; ++column) {
        best = std::max(best, makeKey(widen(logits[column * args.columnStride]), static_cast<uint32_t>(column)));
      }
      int32_t* pair = args.candidates + (row * kArgmaxSlices + slice) * 2;
      pair[0] = keyOrder(best);
      pair[1] = static_cast<int32_t>(keyId(best) + (best == kWorstKey ? 0 : args.vocabStart));
    }
  }
}

}  // namespace

void localArgmaxCpu(const LocalArgmaxArgs& args) {
  const KeepDenormals keepDenormals;
  switch (args.type) {
    case LogitsType::kFloat32:
      return scan<float>(args, widenFloat32);
    case LogitsType::kBfloat16:
      return scan<uint16_t>(args, widenBfloat16);
    case LogitsType::kFloat16:
      return scan<uint16_t>(args, widenFloat16);
  }
}

void pickFromCandidatesCpu(const int32_t* candidates, int64_t ranks, int64_t rows, int32_t* tokens) {
  for (int64_t row = 0; row < rows; ++row) {
    Key best = kWorstKey;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int32_t* pairs = candidates + (rank * rows + row) * kArgmaxSlices * 2;
      for (int64_t slice = 0; slice < kArgmaxSlices; ++slice) {
        best = std::max(best, makeKey(pairs[2 * slice], static_cast<uint32_t>(pairs[2 * slice + 1])));
      }
    }
    tokens[row] = static_cast<int32_t>(keyId(best));
  }
}

}  // namespace lm_head
