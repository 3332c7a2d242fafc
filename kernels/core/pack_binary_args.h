#pragma once

#include <cstdint>

#include "binary_layout.h"

namespace lm_head {

struct PackBinaryArgs {
  BinaryLayout layout;
  int64_t vocabSize;
  const uint32_t* bits;  // [vocabSize, layout.words()]; bit b of word w is column 32w+b
  const float* scales;   // [vocabSize, layout.groups()]
  uint32_t* packed;      // [layout.tiles(vocabSize), layout.tileWords()]
};

struct UnpackBinaryArgs {
  BinaryLayout layout;
  int64_t vocabSize;
  const uint32_t* packed;
  uint32_t* bits;
  float* scales;
};

}  // namespace lm_head
