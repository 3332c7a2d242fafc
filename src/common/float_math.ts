/**
 * Functions of float32 numbers, defined operation by operation: each step rounds once, so that every backend has the same
 * bits. `kernels/core/float_math.h` is their twin.
 */
const { fround } = Math;

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

const LOG2_E = fround(1.44269504);
/** Adding and subtracting it rounds to an integer, which its low bits then hold. */
const INTEGER_ROUNDER = 1.5 * 2 ** 23;
/** log 2 in two parts; products of the first with integers below 2^11 are exact. */
const LOG_2 = [0x162e / 2 ** 13, 0x10bfbe8 / 2 ** 39];
const EXP_TERMS = [1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1, 1].map(fround);
const TANH_TERMS = [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1].map(
  fround,
);
const TANH_IS_1 = fround(9.1);

/** a * b + c, rounded twice. */
export function multiplyAdd(a: number, b: number, c: number): number {
  return fround(fround(a * b) + c);
}

/** The polynomial with these coefficients, that of the highest power first. */
export function polynomial(terms: readonly number[], x: number): number {
  let sum = terms[0];
  for (let i = 1; i < terms.length; i++) sum = multiplyAdd(sum, x, terms[i]);
  return sum;
}

/** exp(x) for a float32 x in [-87, 88]: 2^n exp(x - n log 2), the latter by Taylor's series. */
export function expRounded(x: number): number {
  const shifted = multiplyAdd(x, LOG2_E, INTEGER_ROUNDER);
  const n = fround(shifted - INTEGER_ROUNDER);
  const rest = fround(fround(x - fround(n * LOG_2[0])) - fround(n * LOG_2[1]));
  const sum = polynomial(EXP_TERMS, rest);
  float[0] = shifted;
  bits[0] = (bits[0] + 127) << 23;
  return fround(sum * float[0]);
}

/** tanh(x) of a float32 within 2 ulp, and never falling; NaN stays NaN. The twin says how. */
export function tanhRounded(x: number): number {
  const magnitude = x < 0 ? -x : x;
  if (!(magnitude >= 0.625)) {
    const square = fround(x * x);
    return fround(fround(fround(polynomial(TANH_TERMS, square) * square) * x) + x);
  }
  const limited = magnitude < TANH_IS_1 ? magnitude : TANH_IS_1;
  const exponential = expRounded(fround(limited + limited));
  const large = fround(1 - fround(2 / fround(exponential + 1)));
  return x < 0 ? -large : large;
}
