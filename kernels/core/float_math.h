// Functions of float32 numbers, defined operation by operation: each step rounds once, so that every backend has the
// same bits, TypeScript included (src/common/float_math.ts). On the host, files that include this are compiled with
// -ffp-contract=off.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace lm_head {

LM_HEAD_HOST_DEVICE inline float addRounded(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

LM_HEAD_HOST_DEVICE inline float multiplyRounded(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

LM_HEAD_HOST_DEVICE inline float divideRounded(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

// a / b, for b and the quotient far from the ends of the range of floats.
LM_HEAD_HOST_DEVICE inline float divideMediumRounded(float a, float b) {
#ifdef __CUDA_ARCH__
  // What __fdiv_rn does there, without its look at the exponents.
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(inverse, __fmaf_rn(-b, inverse, 1.0f), inverse);
  const float quotient = __fmul_rn(a, inverse);
  return __fmaf_rn(inverse, __fmaf_rn(-b, quotient, a), quotient);
#else
  return a / b;
#endif
}

// a * b + c, rounded twice.
LM_HEAD_HOST_DEVICE inline float multiplyAddRounded(float a, float b, float c) {
  return addRounded(multiplyRounded(a, b), c);
}

// exp(x) for x in [-87, 88]: 2^n exp(x - n log 2), the latter by Taylor's series.
LM_HEAD_HOST_DEVICE inline float expRounded(float x) {
  union {
    float asFloat;
    uint32_t asInt;
  } shifted{multiplyAddRounded(x, 1.44269504f, 0x1.8p23f)}, power;  // n in its low bits
  const float n = addRounded(shifted.asFloat, -0x1.8p23f);
  // n times the first part of log 2 is exact.
  const float rest = addRounded(addRounded(x, -multiplyRounded(n, 0x1.62ep-1f)), -multiplyRounded(n, 0x1.0bfbe8p-15f));
  float sum = 1.0f / 720;
  sum = multiplyAddRounded(sum, rest, 1.0f / 120);
  sum = multiplyAddRounded(sum, rest, 1.0f / 24);
  sum = multiplyAddRounded(sum, rest, 1.0f / 6);
  sum = multiplyAddRounded(sum, rest, 0.5f);
  sum = multiplyAddRounded(sum, rest, 1.0f);
  sum = multiplyAddRounded(sum, rest, 1.0f);
  power.asInt = (shifted.asInt + 127u) << 23;
  return multiplyRounded(sum, power.asFloat);
}

// tanh(x) within 2 ulp (1.73 at worst, of all floats), and never falling: near 0 the polynomial of Cephes' tanhf, else
// 1 - 2 / (exp(2 x) + 1), which is 1 from 9.1 on. NaN stays NaN. Both are computed, for that is faster than a branch.
LM_HEAD_HOST_DEVICE inline float tanhRounded(float x) {
  const float magnitude = x < 0.0f ? -x : x, square = multiplyRounded(x, x);
  float sum = -5.70498872745e-3f;
  sum = multiplyAddRounded(sum, square, 2.06390887954e-2f);
  sum = multiplyAddRounded(sum, square, -5.37397155531e-2f);
  sum = multiplyAddRounded(sum, square, 1.33314422036e-1f);
  sum = multiplyAddRounded(sum, square, -3.33332819422e-1f);
  const float small = addRounded(multiplyRounded(multiplyRounded(sum, square), x), x);
  const float limited = magnitude < 9.1f ? magnitude : 9.1f;
  const float exponential = expRounded(addRounded(limited, limited));
  const float large = addRounded(1.0f, -divideMediumRounded(2.0f, addRounded(exponential, 1.0f)));
  if (!(magnitude >= 0.625f)) return small;
  return x < 0.0f ? -large : large;
}

}  // namespace lm_head
