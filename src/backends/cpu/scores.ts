/** Scores of the head in plain JavaScript numbers: what every other implementation is compared with. */
import type { HeadFormat } from '../../kernel_names';
import { BinaryLayout } from '../../common/binary_layout';
import { halfRowWords, halfTable, unpackHalf } from '../../common/half';
import type { QuantizedRow } from './quantize_activations';
import { quantizeRow } from './quantize_activations';

const { fround } = Math;

/** Writes the scores of these rows of hidden with vocabulary entry `id`, without bias, to `scores`, each at its row. */
export type Scorer = (id: number, rows: readonly number[], scores: Float32Array) => void;

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
  /** As `LmHeadTopKInputs.hiddenScale`; binary alone. */
  hiddenScale?: ArrayLike<number>;
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
    const words = halfRowWords(hiddenSize);
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
  const { hidden, hiddenSize } = input;
  const readWeight = weightReader(input);
  const row = new Float32Array(hiddenSize);
  return (id, rows, scores) => {
    readWeight(id, row);
    for (const r of rows) {
      let sum = 0;
      for (let i = 0; i < hiddenSize; i++) sum += hidden[r * hiddenSize + i] * row[i];
      scores[r] = sum;
    }
  };
}

/** The rows of hidden in 8 bits: quantized here, or already where `hiddenScale` is given. */
function quantizedRows({ hidden, rows, hiddenSize, hiddenScale }: ScorerInput): QuantizedRow[] {
  return Array.from({ length: rows }, (_, r) => {
    if (hiddenScale === undefined) return quantizeRow(hidden, r, hiddenSize);
    return { q: Int32Array.from({ length: hiddenSize }, (_, i) => hidden[r * hiddenSize + i]), scale: hiddenScale[r] };
  });
}

/**
 * Every `fround` below is one float32 rounding that design and GPU code share; the bits of the result depend on
 * their number and order.
 */
function binaryScorer(input: ScorerInput): Scorer {
  const { hiddenSize, weight, groupSize } = input;
  const layout = new BinaryLayout(hiddenSize, groupSize);
  const { words, groups } = layout;
  const table = halfTable('float16');
  const quantized = quantizedRows(input);
  const signs = new Int8Array(hiddenSize);
  const groupScales = new Float32Array(groups);
  return (id, rows, scores) => {
    for (let w = 0; w < words; w++) {
      const word = weight[layout.wordAt(id, w)];
      for (let b = 0; b < 32; b++) signs[32 * w + b] = (word >>> b) & 1 ? 1 : -1;
    }
    for (let g = 0; g < groups; g++) groupScales[g] = unpackHalf(weight, 0, layout.scaleAt(id, g), table);
    for (const r of rows) {
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
