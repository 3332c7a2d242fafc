/**
 * What the ops should answer, from first principles: float64 scores and a stable sort by the order. Nothing here shares
 * code with src/.
 */
// jest looks globals up slowly, and these are used in inner loops
const { abs, ceil, floor, fround, max, min, round } = Math;
const { isFinite } = Number;

export type Matrix = Float32Array | Float64Array;
export type Half = 'bfloat16' | 'float16';

/** Negative when `a` ranks before `b`: NaN first, then the larger; 0 for a tie (JavaScript's -0 equals 0). */
export function compareScores(a: number, b: number): number {
  if (a !== a || b !== b) return Number(b !== b) - Number(a !== a);
  return a > b ? -1 : Number(a < b);
}

/** Ids of the best k scores; the sort is stable, so a tie goes to the lower id. */
export function rankIds(scores: ArrayLike<number>, k: number): number[] {
  return Array.from(scores, (_, id) => id)
    .sort((a, b) => compareScores(scores[a], scores[b]))
    .slice(0, k);
}

/** `rankIds(scores, 1)[0]`, without a sort. */
export function bestId(scores: ArrayLike<number>): number {
  let best = 0;
  for (let id = 1; id < scores.length; id++) if (compareScores(scores[id], scores[best]) < 0) best = id;
  return best;
}

const double = new Float64Array(1);
const doubleWords = new Int32Array(double.buffer);
/** 2^(i - 200), exact. */
const POWERS = Float64Array.from({ length: 400 }, (_, i) => 2 ** (i - 200));
/** Adding and subtracting this rounds a number below 2^51 to an integer, ties to even. */
const INTEGER_ROUNDER = 1.5 * 2 ** 52;

/** Nearest value of a 16-bit format, ties to even, by float64 arithmetic on multiples of the last place. */
export function roundToHalf(x: number, format: Half): number {
  if (x === 0 || !isFinite(x)) return x;
  const float16 = format === 'float16';
  double[0] = x;
  const exponent = ((doubleWords[1] >>> 20) & 0x7ff) - 1023;
  const unit = POWERS[200 + (float16 ? max(exponent, -14) - 10 : max(exponent, -126) - 7)];
  const rounded = (x / unit + INTEGER_ROUNDER - INTEGER_ROUNDER) * unit;
  const largest = float16 ? 65504 : (2 - 2 ** -7) * 2 ** 127;
  if (rounded === 0) return x < 0 ? -0 : 0;
  return abs(rounded) > largest ? Math.sign(x) * Infinity : rounded;
}

export function roundMatrix(weights: Float32Array, format: Half | 'float32'): Float32Array {
  return format === 'float32' ? weights : weights.map((w) => roundToHalf(w, format));
}

export interface Scores {
  /** float64 scores of one row of hidden. */
  scores: Float64Array;
  /** Σ|h_i·w_i| of each. */
  magnitudes: Float64Array;
}

/** Scores of each row of hidden [rows, H] with weights [V, H] in float64. */
export function denseScores(hidden: Matrix, weights: Matrix, hiddenSize: number, bias?: Matrix): Scores[] {
  const rows = hidden.length / hiddenSize;
  const vocabSize = weights.length / hiddenSize;
  return Array.from({ length: rows }, (_, row) => {
    const scores = new Float64Array(vocabSize);
    const magnitudes = new Float64Array(vocabSize);
    for (let id = 0; id < vocabSize; id++) {
      let sum = 0;
      let magnitude = 0;
      for (let i = 0; i < hiddenSize; i++) {
        const product = hidden[row * hiddenSize + i] * weights[id * hiddenSize + i];
        sum += product;
        magnitude += abs(product);
      }
      scores[id] = sum + (bias ? bias[id] : 0);
      magnitudes[id] = magnitude;
    }
    return { scores, magnitudes };
  });
}

/** Weights of ±1 and the scale of each group, as a binary head stores them. */
export interface BinaryWeights {
  vocabSize: number;
  hiddenSize: number;
  groupSize: number;
  /** +1 or -1, [vocabSize, hiddenSize]. */
  signs: Int8Array;
  /** [vocabSize, hiddenSize / groupSize]. */
  scales: Float32Array;
}

/** Bit b of word w of a row is column 32w+b; set means +1. */
export function packSigns(signs: Int8Array): Int32Array {
  const bits = new Int32Array(signs.length / 32);
  signs.forEach((sign, i) => {
    if (sign > 0) bits[floor(i / 32)] |= 1 << (i % 32);
  });
  return bits;
}

/**
 * The words that a binary head is packed into, in the order in which they lie: for each tile of 256 ids its bits, in chunks
 * of up to 4 blocks of 128 columns, and then its scales as float16 bits, for four groups at a time.
 */
export function packedWords(bits: Int32Array, halves: Uint16Array, vocabSize: number): number[] {
  const [words, groups] = [bits.length / vocabSize, halves.length / vocabSize];
  const blocks = ceil(words / 4);
  const bitsAt = (id: number, word: number) => (id < vocabSize && word < words ? bits[id * words + word] : 0);
  const halfAt = (id: number, group: number) => (id < vocabSize && group < groups ? halves[id * groups + group] : 0);
  const packed: number[] = [];
  for (let tile = 0; tile < vocabSize; tile += 256) {
    for (let firstBlock = 0; firstBlock < blocks; firstBlock += 4) {
      for (let id = tile; id < tile + 256; id++) {
        for (let word = 0; word < 4; word++) {
          for (let block = firstBlock; block < min(blocks, firstBlock + 4); block++) {
            packed.push(bitsAt(id, 4 * block + word));
          }
        }
      }
    }
    for (let group = 0; group < groups; group += 4) {
      for (let id = tile; id < tile + 256; id++) {
        for (const g of [group, group + 2]) packed.push(halfAt(id, g) | (halfAt(id, g + 1) << 16));
      }
    }
  }
  return packed;
}

/** Rows in 8 bits: hidden is about q * scale. */
export interface QuantizedRows {
  /** Whole numbers in [-127, 127], [rows, hiddenSize]. */
  q: Int32Array;
  /** [rows]. */
  scale: Float32Array;
}

export function quantizeRows(hidden: Float32Array, hiddenSize: number): QuantizedRows {
  const q = new Int32Array(hidden.length);
  const scale = new Float32Array(hidden.length / hiddenSize);
  for (let row = 0; row < scale.length; row++) {
    const h = hidden.subarray(row * hiddenSize, (row + 1) * hiddenSize);
    const absmax = h.reduce((largest, x) => max(largest, abs(x)), 0); // max gives NaN when there is one
    scale[row] = isFinite(absmax) ? fround(absmax / 127) : NaN;
    if (!(scale[row] > 0)) continue;
    for (let i = 0; i < hiddenSize; i++) {
      q[row * hiddenSize + i] = max(-127, min(127, roundToEven(fround(h[i] / scale[row]))));
    }
  }
  return { q, scale };
}

/** The arithmetic of binary scores, rounding for rounding: the bits that every backend must give. */
export function binaryScores(hidden: Float32Array, head: BinaryWeights, bias?: Float32Array): Float32Array[] {
  return quantizedScores(quantizeRows(hidden, head.hiddenSize), head, bias);
}

/** `binaryScores` of rows that are in 8 bits already. */
export function quantizedScores(rows: QuantizedRows, head: BinaryWeights, bias?: Float32Array): Float32Array[] {
  const { vocabSize, hiddenSize, groupSize, signs } = head;
  const scales = head.scales.map((scale) => roundToHalf(scale, 'float16'));
  const groups = hiddenSize / groupSize;
  return Array.from(rows.scale, (scale, row) => {
    const q = rows.q.subarray(row * hiddenSize, (row + 1) * hiddenSize);
    return Float32Array.from({ length: vocabSize }, (_, id) => {
      const sums = [0, 0, 0, 0];
      for (let group = 0; group < groups; group++) {
        let dot = 0;
        for (let i = group * groupSize; i < (group + 1) * groupSize; i++) dot += q[i] * signs[id * hiddenSize + i];
        sums[group % 4] = fround(sums[group % 4] + fround(dot * scales[id * groups + group]));
      }
      const score = fround(fround(fround(sums[0] + sums[1]) + fround(sums[2] + sums[3])) * scale);
      return bias ? fround(score + bias[id]) : score;
    });
  });
}

function roundToEven(x: number): number {
  const up = round(x); // rounds a tie up
  return up - x === 0.5 && up % 2 !== 0 ? up - 1 : up;
}

/** The largest error a dense score may have; with a bias, its own rounding on top. */
export function denseBound({ scores, magnitudes }: Scores, id: number): number {
  return 3e-5 * magnitudes[id] + 2 ** -23 * abs(scores[id]) + 2 ** -149;
}

/** The steps from a product to the score that ranks. */
export const SCORE_STEPS = ['bias', 'softCap', 'scale', 'adjust', 'mask'] as const;
export type ScoreStep = (typeof SCORE_STEPS)[number];

/** What the options of `lmHeadTopK` say of one row, in plain numbers. */
export interface RowOptions {
  bias?: ArrayLike<number>;
  softCap?: number;
  scale?: number;
  /** One `add` and one `repetition` an id; of an id that is listed twice, the last counts. */
  adjust?: { ids: ArrayLike<number>; add?: ArrayLike<number>; repetition?: ArrayLike<number> };
  mask?: ArrayLike<number>;
}

/**
 * What the options make of one row's scores, whose first has id `vocabStart`. Magnitudes are such that `denseBound` allows
 * what an error of the score may grow to, and 1e-5 of the largest number on the way besides.
 */
export function finalScores(
  row: Scores,
  { bias, softCap, scale = 1, adjust, mask }: RowOptions,
  vocabStart = 0,
  steps: readonly ScoreStep[] = SCORE_STEPS,
): Scores {
  const scores = new Float64Array(row.scores.length);
  const magnitudes = new Float64Array(scores.length);
  const listed = Array.from(adjust?.ids ?? []);
  for (let place = 0; place < scores.length; place++) {
    const id = vocabStart + place;
    const entry = listed.lastIndexOf(id);
    const add = (entry >= 0 && adjust?.add?.[entry]) || 0;
    const repetition = (entry >= 0 && adjust?.repetition?.[entry]) || 1;
    const isAllowed = mask === undefined || ((mask[floor(id / 32)] >>> (id % 32)) & 1) === 1;
    const apply: Record<ScoreStep, (score: number) => number> = {
      bias: (score) => score + (bias?.[place] ?? 0),
      softCap: (score) =>
        softCap === undefined || softCap === Infinity ? score : softCap * Math.tanh(score / softCap),
      scale: (score) => score * scale,
      adjust: (score) => (score > 0 ? score / repetition : score * repetition) + add,
      mask: (score) => (isAllowed ? score : -Infinity),
    };
    scores[place] = row.scores[place];
    let largest = 0;
    for (const step of steps) {
      largest = max(largest, abs(scores[place]));
      scores[place] = apply[step](scores[place]);
    }
    magnitudes[place] = abs(scale) * max(repetition, 1 / repetition) * (row.magnitudes[place] + largest / 3);
  }
  return { scores, magnitudes };
}

/**
 * Why (values, ids) is not the top k of float64 scores known up to `denseBound`, or undefined if it is. Ids of scores
 * closer than that may come in either order, but always as the op's own values say.
 */
export function topKFault(values: number[], ids: number[], reference: Scores, k: number): string | undefined {
  const { scores } = reference;
  if (values.length !== k || ids.length !== k) return `expected ${k} values and ids`;
  if (new Set(ids).size !== k) return 'an id occurs twice';
  for (let j = 0; j < k; j++) {
    const id = ids[j];
    if (!Number.isInteger(id) || id < 0 || id >= scores.length) return `id ${id} is outside the vocabulary`;
    if (values[j] !== scores[id] && !(abs(values[j] - scores[id]) <= denseBound(reference, id))) {
      return `value ${values[j]} of id ${id} is too far from ${scores[id]}`;
    }
    if (j === 0) continue;
    const order = compareScores(values[j - 1], values[j]);
    if (order > 0 || (order === 0 && ids[j - 1] > id)) return `places ${j - 1} and ${j} are out of order`;
  }
  const returned = new Set(ids);
  for (let id = 0; id < scores.length && k > 0; id++) {
    if (!returned.has(id) && scores[id] > values[k - 1] + denseBound(reference, id)) return `id ${id} is missing`;
  }
  return undefined;
}

/** log(Σ exp(score)) in float64: NaN if there is one, otherwise +Infinity if there is one, -Infinity if all are that. */
export function logSumExp(scores: ArrayLike<number>): number {
  let largest = -Infinity;
  for (let id = 0; id < scores.length; id++) {
    if (scores[id] !== scores[id]) return NaN;
    largest = max(largest, scores[id]);
  }
  if (!isFinite(largest)) return largest;
  let sum = 0;
  for (let id = 0; id < scores.length; id++) sum += Math.exp(scores[id] - largest);
  return largest + Math.log(sum);
}

/** Why `value` is not the log-sum-exp of these scores, or undefined if it is. */
export function logSumExpFault(value: number, scores: ArrayLike<number>): string | undefined {
  const exact = logSumExp(scores);
  const close = isFinite(exact) ? abs(value - exact) <= 1e-5 * max(1, abs(exact)) : Object.is(value, exact);
  return close ? undefined : `${value} is too far from ${exact}`;
}
