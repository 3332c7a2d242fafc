/**
 * Noise of draws: a number for each seed, step, row and id, the same on every backend, whatever is drawn with it at the same
 * time. `kernels/core/noise.h` is its twin: each step rounds once there and here.
 */
import { multiplyAdd, polynomial } from './float_math';

const { fround, imul } = Math;

/** Words of a seed: lower and upper half of the seed, then of the step. */
export const SEED_WORDS = 4;

/** The words of whole numbers in [0, 2^53). */
export function seedWords(seed: number, step: number): number[] {
  return [seed, step].flatMap((n) => [n | 0, Math.floor(n / 2 ** 32) | 0]);
}

/** The upper half of the product of two words, as int32. */
function multiplyHigh(a: number, b: number): number {
  const aHigh = a >>> 16;
  const aLow = a & 0xffff;
  const bHigh = b >>> 16;
  const bLow = b & 0xffff;
  const middle = imul(aHigh, bLow) + (imul(aLow, bLow) >>> 16);
  const other = imul(aLow, bHigh) + (middle & 0xffff);
  return (imul(aHigh, bHigh) + (middle >>> 16) + (other >>> 16)) | 0;
}

/**
 * Philox4x32-10 (Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3"): key seed, counter (block, row, step).
 * Ids `id` and `id` + 8 share a block, where the first has bit 3 clear; each has two of its four words.
 * @param seed holds SEED_WORDS from `at` on.
 * @param words is written to.
 */
export function noiseWords(seed: ArrayLike<number>, at: number, row: number, id: number, words: Uint32Array): void {
  // Written out: arrays taken apart cost a draw more than the rounds do.
  let c0 = ((id >>> 4) << 3) | (id & 7);
  let c1 = row;
  let c2 = seed[at + 2];
  let c3 = seed[at + 3];
  let k0 = seed[at];
  let k1 = seed[at + 1];
  for (let round = 0; round < 10; round++) {
    const high0 = multiplyHigh(0xd2511f53, c0);
    const low0 = imul(0xd2511f53, c0);
    const high1 = multiplyHigh(0xcd9e8d57, c2);
    const low1 = imul(0xcd9e8d57, c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 = (k0 + 0x9e3779b9) | 0;
    k1 = (k1 + 0xbb67ae85) | 0;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

const BELOW_1 = 1 - 2 ** -24;

/** Two words as a number in (0, 1), uniform: near 0, where winners are, with all digits of a float, down to 2^-64. */
export function uniformOf(upper: number, lower: number): number {
  const sum = fround(fround(upper >>> 0) * 2 ** -32 + fround((lower | 1) >>> 0) * 2 ** -64);
  return sum < BELOW_1 ? sum : BELOW_1;
}

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

const LOG_TERMS = [
  7.0376836292e-2, -1.151461031e-1, 1.167699874e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
  2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
].map(fround);
/** log 2 in two parts; products of the second with exponents are exact. */
const LOG_2 = [fround(-2.1219444e-4), 0.693359375];

/** log(x) of a normal float32: the polynomial of Cephes' logf. */
export function logRounded(x: number): number {
  float[0] = x;
  // x = mantissa * 2^exponent, the mantissa in [sqrt(1/2), sqrt(2)).
  const shifted = (bits[0] - 0x3f3504f3) | 0;
  const exponent = shifted >> 23;
  bits[0] = (shifted & 0x007fffff) + 0x3f3504f3;
  const f = fround(float[0] - 1);
  const square = fround(f * f);
  let sum = fround(fround(polynomial(LOG_TERMS, f) * f) * square);
  sum = multiplyAdd(exponent, LOG_2[0], sum);
  sum = multiplyAdd(square, -0.5, sum);
  return multiplyAdd(exponent, LOG_2[1], fround(f + sum));
}

/** Standard Gumbel noise, -log(-log(1 - uniform)); log1p after Kahan: log(y) * x / (1 - y) for y = 1 - x. */
export function gumbelOf(uniform: number): number {
  const y = fround(1 - uniform);
  const exponential = y === 1 ? uniform : fround(fround(-logRounded(y) * uniform) / fround(1 - y));
  return -logRounded(exponential);
}

const own = new Uint32Array(4);

/** The noise of a row and id. */
export function noiseOf(seed: ArrayLike<number>, at: number, row: number, id: number): number {
  noiseWords(seed, at, row, id, own);
  const first = (id >>> 3) & 1 ? 2 : 0;
  return gumbelOf(uniformOf(own[first], own[first + 1]));
}

/** 1 / temperature; 1 for a temperature of 0, which has no noise. */
export function inverseTemperature(temperature: number): number {
  return temperature === 0 ? 1 : fround(1 / temperature);
}

/** A score as a draw ranks it. */
export function noisy(score: number, temperature: number, noise: number): number {
  return temperature === 0 ? score : fround(fround(score * inverseTemperature(temperature)) + noise);
}
