// Checks of inputs that several ops share.
#pragma once

#include <string>
#include <vector>

#include "../core/binary_layout.h"
#include "tf_api.h"

namespace lm_head {

inline std::string shapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (size_t axis = 0; axis < shape.size(); ++axis) text += (axis ? "," : "") + std::to_string(shape[axis]);
  return text + "]";
}

inline void requireShape(const char* op, const char* input, const Tensor& tensor, const std::vector<int64_t>& shape) {
  bool same = tensor.rank() == static_cast<int>(shape.size());
  for (int axis = 0; same && axis < tensor.rank(); ++axis) same = tensor.dim(axis) == shape[axis];
  require(same, [&] {
    return std::string(op) + ": input '" + input + "' must have shape " + shapeText(shape) + ", but got " +
           tensor.shape();
  });
}

inline void requireGroupSize(const char* op, int64_t groupSize, int64_t hiddenSize) {
  constexpr int64_t kMax = BinaryLayout::kMaxGroupSize;
  require(groupSize > 0 && groupSize <= kMax && groupSize % 32 == 0 && hiddenSize % groupSize == 0, [&] {
    return std::string(op) + ": attribute 'group_size' must be a multiple of 32, at most " + std::to_string(kMax) +
           ", that divides " + std::to_string(hiddenSize) + ", but got " + std::to_string(groupSize);
  });
}

}  // namespace lm_head
