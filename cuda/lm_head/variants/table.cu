// The table of variants: a row for each format and kind of GPU, best first.
#include "table.h"

namespace lm_head {

const Variant* chooseVariant(const LmHeadTopKArgs& args, const GpuInfo& gpu, Path path) {
  static const Variant* const table[] = {
      &kBfloat16Sm90, &kFloat16Sm90, &kFloat32Sm90, &kBinarySm90,  // tensor cores of compute capability 9.0
      &kBinaryBulk,                                                // bulk copies, 9.0 and later
      &kBfloat16,     &kFloat16,     &kFloat32,     &kBinary,      // 8.0 and later
  };
  for (const Variant* variant : table) {
    if (variant->supports(args, gpu, path)) return variant;
  }
  return nullptr;
}

}  // namespace lm_head
