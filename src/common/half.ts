/** Rounding of float32 to 16 bits and back, in JavaScript numbers. */
import type { DenseFormat } from '../kernel_names';

export type HalfFormat = Exclude<DenseFormat, 'float32'>;

const { abs, floor } = Math;

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** Smallest finite magnitude that rounds to infinity: half an ulp above the largest finite number of the format. */
export const HALF_OVERFLOW: Readonly<Record<HalfFormat, number>> = {
  float16: 65520,
  bfloat16: (2 - 2 ** -8) * 2 ** 127,
};

/** Nearest integer, a tie to the even one; any sign. */
export function roundHalfEven(x: number): number {
  const low = floor(x);
  const rest = x - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 !== 0) ? low + 1 : low;
}

/** The 16 bits of `value` (a float32) rounded to nearest, a tie to even; NaN stays NaN, overflow gives infinity. */
export function toHalf(value: number, format: HalfFormat): number {
  float[0] = value;
  const all = bits[0];
  const magnitude = all & 0x7fffffff;
  const sign = (all >>> 16) & 0x8000;
  if (format === 'bfloat16') {
    if (magnitude > 0x7f800000) return sign | 0x7fc0;
    return (all + 0x7fff + ((all >>> 16) & 1)) >>> 16;
  }
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00; // 65520 and more
  // Below 2^-14 the unit is 2^-24; rounding up to 1024 units gives the bits of 2^-14 without a special case.
  if (magnitude < 0x38800000) return sign | roundHalfEven(abs(value) * 2 ** 24);
  return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

function float16ToNumber(half: number): number {
  const exponent = (half >>> 10) & 0x1f;
  const mantissa = half & 0x3ff;
  const sign = half & 0x8000 ? -1 : 1;
  if (exponent === 0) return sign * mantissa * 2 ** -24;
  if (exponent === 0x1f) return mantissa === 0 ? sign * Infinity : NaN;
  return sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

const tables = new Map<HalfFormat, Float32Array>();

/** Table from 16 bits to the float32 they stand for. */
export function halfTable(format: HalfFormat): Float32Array {
  let table = tables.get(format);
  if (table === undefined) {
    table = new Float32Array(0x10000);
    if (format === 'bfloat16') {
      const tableBits = new Uint32Array(table.buffer);
      for (let half = 0; half < 0x10000; half++) tableBits[half] = half << 16;
    } else {
      for (let half = 0; half < 0x10000; half++) table[half] = float16ToNumber(half);
    }
    tables.set(format, table);
  }
  return table;
}

/** Elements that a packed row is a multiple of, zeros behind its last: 16 bytes, as the GPU's widest load takes them. */
export const HALF_ROW_MULTIPLE = 8;

/** int32 words of a packed row of so many elements. */
export function halfRowWords(columns: number): number {
  return (Math.ceil(columns / HALF_ROW_MULTIPLE) * HALF_ROW_MULTIPLE) / 2;
}

/** Element `column` of a packed row that begins at word `rowStart`: two elements a word, the lower column in the lower half. */
export function unpackHalf(packed: ArrayLike<number>, rowStart: number, column: number, table: Float32Array): number {
  const word = packed[rowStart + (column >>> 1)];
  return table[column % 2 === 0 ? word & 0xffff : word >>> 16];
}
