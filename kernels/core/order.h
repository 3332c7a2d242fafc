// The one total order of this package: NaN before +inf, then the larger value, then the lower id; -0.0 equals +0.0.
// A (value, id) pair becomes one 64-bit key that sorts like it: larger is better, and no two ids share a key.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace lm_head {

using Key = uint64_t;

// Below every real key: even (-inf, 2^31 - 1) lies above it.
constexpr Key kWorstKey = 0;
// Above every real key, for ids use 31 bits.
constexpr Key kAboveAllKeys = ~Key{0};
constexpr uint32_t kLargestId = 0x7fffffffu;

// Signed integer that sorts like the value; the same number on every backend.
LM_HEAD_HOST_DEVICE inline int32_t orderKey(float value) {
  union {
    float asFloat;
    int32_t asInt;
  } bits{value};
  if (value != value) return 0x7fffffff;
  if (value == 0.0f) return 0;
  return bits.asInt >= 0 ? bits.asInt : bits.asInt ^ 0x7fffffff;
}

LM_HEAD_HOST_DEVICE inline float orderedValue(int32_t key) {
  union {
    int32_t asInt;
    float asFloat;
  } bits{key >= 0 ? key : key ^ 0x7fffffff};
  return bits.asFloat;
}

LM_HEAD_HOST_DEVICE inline Key makeKey(int32_t order, uint32_t id) {
  return (Key{static_cast<uint32_t>(order) ^ 0x80000000u} << 32) | (kLargestId - id);
}

LM_HEAD_HOST_DEVICE inline Key makeKey(float value, uint32_t id) { return makeKey(orderKey(value), id); }

LM_HEAD_HOST_DEVICE inline int32_t keyOrder(Key key) {
  return static_cast<int32_t>(static_cast<uint32_t>(key >> 32) ^ 0x80000000u);
}

LM_HEAD_HOST_DEVICE inline float keyValue(Key key) { return orderedValue(keyOrder(key)); }

LM_HEAD_HOST_DEVICE inline uint32_t keyId(Key key) { return kLargestId - static_cast<uint32_t>(key); }

}  // namespace lm_head
