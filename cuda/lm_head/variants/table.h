// The variants that there are, each defined in the file of its name.
#pragma once

#include "../plan.h"

namespace lm_head {

extern const Variant kBfloat16Sm90, kFloat16Sm90;  // half_sm90.cu
extern const Variant kFloat32Sm90;                 // float_sm90.cu
extern const Variant kBinarySm90;                  // binary_sm90.cu
extern const Variant kBinaryBulk, kBinary;         // binary.cu
extern const Variant kBfloat16, kFloat16;          // half.cu
extern const Variant kFloat32;                     // float.cu

}  // namespace lm_head
