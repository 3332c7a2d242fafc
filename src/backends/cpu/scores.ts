/** Scores of the head in plain JavaScript numbers: what every other implementation is compared with. */
import type { HeadFormat } from '../../kernel_names';
import { halfTable, roundHalfEven, unpackHalf } from '../half';

const { abs, fround, max, min } = Math;

/** Writes the score of each row of hidden with vocabulary entry `id`, without bias, to `scores`. */
export type Scorer = (id: number, scores: Float32Array) => void;

export interface ScorerInput {
  format: HeadFormat;
  /** float32 [rows, hiddenSize]. */
  hidden: ArrayLike<number>;
  rows: number;
  hiddenSize: number;
  vocabSize: number;
  /** As `LmHeadTopKInputs.weight`. */
  weight: ArrayLike<number>;
  transposeWeight: boolean;
  /** As `LmHeadTopKInputs.scales`; binary alone. */
  scales?: ArrayLike<number>;
  groupSize: number;
}

/** The scorer of any format. */
export function makeScorer(input: ScorerInput): Scorer {
  return input.format === 'binary' ? binaryScorer(input) : denseScorer(input);
}

/** Returns a function that copies weight row `id`, widened to float32, into `out`. */
export function weightReader(input: Omit<ScorerInput, 'hidden' | 'rows'>): (id: number, out: Float32Array) => void {
  const { format, hiddenSize, vocabSize, weight, transposeWeight } = input;
  if (format === 'bfloat16' || format === 'float16') {
    const table = halfTable(format);
    const words = 4 * Math.ceil(hiddenSize / 8);
    return (id, out) => {
      for (let i = 0; i < hiddenSize; i++) out[i] = unpackHalf(weight, id * words, i, table);
    };
  }
  return (id, out) => {
    for (let i = 0; i < hiddenSize; i++) out[i] = weight[transposeWeight ? i * vocabSize + id : id * hiddenSize + i];
  };
}

/** Sums in float64, and rounds once: closer to the true score than any sum in float32. */
function denseScorer(input: ScorerInput): Scorer {
  const { hidden, rows, hiddenSize } = input;
  const readWeight = weightReader(input);
  const row = new Float32Array(hiddenSize);
  return (id, scores) => {
    readWeight(id, row);
    for (let r = 0; r < rows; r++) {
      let sum = 0;
      for (let i = 0; i < hiddenSize; i++) sum += hidden[r * hiddenSize + i] * row[i];
      scores[r] = sum;
    }
  };
}

export interface QuantizedRow {
  /** Integers in [-127, 127]. */
  q: Int32Array;
  /** float32; NaN for a row that holds NaN or an infinity. */
  scale: number;
}

/** Row `row` of `hidden` in 8 bits: scale = absmax / 127, q = round-half-even(h / scale), both in float32. */
export function quantizeRow(hidden: ArrayLike<number>, row: number, hiddenSize: number): QuantizedRow {
  const q = new Int32Array(hiddenSize);
  let absmax = 0;
  for (let i = 0; i < hiddenSize; i++) {
    const magnitude = abs(hidden[row * hiddenSize + i]);
    if (!Number.isFinite(magnitude)) return { q, scale: NaN };
    absmax = max(absmax, magnitude);
  }
  const scale = fround(absmax / 127);
  if (scale === 0) return { q, scale };
  for (let i = 0; i < hiddenSize; i++) {
    const quotient = roundHalfEven(fround(hidden[row * hiddenSize + i] / scale));
    q[i] = min(127, max(-127, quotient)); // only a subnormal scale gets past 127
  }
  return { q, scale };
}

/**
 * Every `fround` below is one float32 rounding that design and GPU code share; the bits of the result depend on
 * their number and order.
 */
function binaryScorer(input: ScorerInput): Scorer {
  const { hidden, rows, hiddenSize, weight, scales, groupSize } = input;
  if (scales === undefined) throw new Error("The 'binary' format needs the input 'scales'.");
  const groups = hiddenSize / groupSize;
  const words = hiddenSize / 32;
  const scaleWords = Math.ceil(groups / 2);
  const table = halfTable('float16');
  const quantized = Array.from({ length: rows }, (_, r) => quantizeRow(hidden, r, hiddenSize));
  const signs = new Int8Array(hiddenSize);
  const groupScales = new Float32Array(groups);
  return (id, scores) => {
    for (let i = 0; i < hiddenSize; i++) signs[i] = (weight[id * words + (i >>> 5)] >>> (i & 31)) & 1 ? 1 : -1;
    for (let g = 0; g < groups; g++) groupScales[g] = unpackHalf(scales, id * scaleWords, g, table);
    for (let r = 0; r < rows; r++) {
      const { q, scale } = quantized[r];
      const s = [0, 0, 0, 0];
      for (let g = 0; g < groups; g++) {
        let dot = 0;
        for (let i = g * groupSize; i < (g + 1) * groupSize; i++) dot += q[i] * signs[i];
        s[g % 4] = fround(s[g % 4] + fround(dot * groupScales[g]));
      }
      scores[r] = fround(fround(fround(s[0] + s[1]) + fround(s[2] + s[3])) * scale);
    }
  };
}
