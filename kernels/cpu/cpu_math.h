// Small helpers of the CPU kernels.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lm_head {

// Floats that vector instructions read without crossing from one line of the cache to the next.
struct alignas(64) CacheLine {
  float floats[16];
};

// TensorFlow may run kernels with denormals flushed to zero; results here must not depend on that.
class KeepDenormals {
#if defined(__x86_64__)
 public:
  KeepDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~0x8040u); }
  ~KeepDenormals() { _mm_setcsr(saved_); }
  KeepDenormals(const KeepDenormals&) = delete;
  KeepDenormals& operator=(const KeepDenormals&) = delete;

 private:
  unsigned saved_;
#endif
};

template <class To, class From>
inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

// The fields shifted into place read as a float32 with an exponent too small by 112; the product is exact, denormals
// too. No branch, so that loops over it become vector instructions.
inline float widenFloat16(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu, sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t scaled = bitCast<uint32_t>(bitCast<float>(magnitude << 13) * 0x1p112f);
  const uint32_t infiniteOrNan = -static_cast<uint32_t>(magnitude >= 0x7c00u) & 0x7f800000u;
  return bitCast<float>(scaled | infiniteOrNan | sign);
}

inline uint16_t roundToBfloat16(float x) {
  const uint32_t bits = bitCast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline uint16_t roundToFloat16(float x) {
  const uint32_t bits = bitCast<uint32_t>(x);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const float magnitude = bitCast<float>(bits & 0x7fffffffu);
  if (x != x) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  if (magnitude < 0x1p-14f) {
    // Adding 2^-1 leaves the rounded count of 2^-24 in the low bits of the sum.
    return sign | static_cast<uint16_t>(bitCast<uint32_t>(magnitude + 0.5f) - bitCast<uint32_t>(0.5f));
  }
  const uint32_t rebiased = bitCast<uint32_t>(magnitude) - (112u << 23);
  return sign | static_cast<uint16_t>((rebiased + 0xfffu + ((rebiased >> 13) & 1u)) >> 13);
}

}  // namespace lm_head
