/** Inputs of the suites and of the benchmarks: shapes, values of k, and seeded random data. */
import type { Tensor2D } from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat } from 'tfjs-lm-head';
import { LmHead } from 'tfjs-lm-head';
import type { BinaryWeights } from './reference';
import { packSigns } from './reference';

// jest looks globals up slowly, and these are used in inner loops
const { floor, imul } = Math;

export const DENSE_FORMATS = ['float32', 'bfloat16', 'float16'] as const;
export const FORMATS: readonly HeadFormat[] = [...DENSE_FORMATS, 'binary'];

export interface Shape {
  rows: number;
  hiddenSize: number;
  vocabSize: number;
  /** Only for native kernels: too slow in plain TypeScript. */
  large?: boolean;
}

/** Ragged sizes, sizes around powers of two, and those of real models. */
export const DENSE_SHAPES: readonly Shape[] = [
  { rows: 1, hiddenSize: 1, vocabSize: 1 },
  { rows: 3, hiddenSize: 7, vocabSize: 65 },
  { rows: 2, hiddenSize: 65, vocabSize: 1000 },
  { rows: 5, hiddenSize: 1000, vocabSize: 33 },
  { rows: 33, hiddenSize: 96, vocabSize: 128 },
  { rows: 64, hiddenSize: 512, vocabSize: 257 },
  { rows: 1, hiddenSize: 2048, vocabSize: 300 },
  { rows: 1, hiddenSize: 8, vocabSize: 5000 },
  { rows: 1, hiddenSize: 512, vocabSize: 128256, large: true },
  { rows: 4, hiddenSize: 512, vocabSize: 32001, large: true },
  { rows: 64, hiddenSize: 768, vocabSize: 2100, large: true },
  { rows: 2, hiddenSize: 2048, vocabSize: 10007, large: true },
];

export type BinaryShape = Shape & { groupSize: number };

export const BINARY_SHAPES: readonly BinaryShape[] = [
  { rows: 1, hiddenSize: 32, vocabSize: 1, groupSize: 32 },
  { rows: 3, hiddenSize: 64, vocabSize: 65, groupSize: 64 },
  { rows: 2, hiddenSize: 96, vocabSize: 1000, groupSize: 32 },
  { rows: 5, hiddenSize: 992, vocabSize: 33, groupSize: 32 },
  { rows: 33, hiddenSize: 192, vocabSize: 128, groupSize: 96 },
  { rows: 64, hiddenSize: 512, vocabSize: 257, groupSize: 128 },
  { rows: 1, hiddenSize: 2048, vocabSize: 300, groupSize: 2048 },
  { rows: 1, hiddenSize: 128, vocabSize: 5000, groupSize: 128 },
  { rows: 8, hiddenSize: 160, vocabSize: 63, groupSize: 160 },
  { rows: 9, hiddenSize: 384, vocabSize: 64, groupSize: 96 },
  { rows: 17, hiddenSize: 640, vocabSize: 70, groupSize: 64 },
  { rows: 3, hiddenSize: 2304, vocabSize: 129, groupSize: 256 },
  { rows: 1, hiddenSize: 16384, vocabSize: 100, groupSize: 128 },
  { rows: 1, hiddenSize: 512, vocabSize: 128256, groupSize: 128, large: true },
  { rows: 4, hiddenSize: 512, vocabSize: 32001, groupSize: 64, large: true },
  { rows: 64, hiddenSize: 768, vocabSize: 2100, groupSize: 256, large: true },
  { rows: 2, hiddenSize: 2048, vocabSize: 10007, groupSize: 128, large: true },
];

/** Every k that is a border of something, as far as the vocabulary goes. */
export function ksFor(vocabSize: number): number[] {
  const ks = [0, 1, 2, 31, 32, 33, 50, 100, 257, 2048, 2049, 5000];
  if (vocabSize <= 5000) ks.push(vocabSize);
  return [...new Set(ks)].filter((k) => k <= vocabSize);
}

/** Small seeded generator (mulberry32) of floats in [0, 1). */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = imul(state ^ (state >>> 15), 1 | state);
    t = (t + imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** float32 in [-1, 1). */
export function randomFloats(length: number, seed: number): Float32Array {
  const next = random(seed);
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) values[i] = 2 * next() - 1;
  return values;
}

/** Integers in [low, high]; few of them, so that scores are full of ties. */
export function randomIntegers(length: number, low: number, high: number, seed: number): Float32Array {
  const next = random(seed);
  const values = new Float32Array(length);
  for (let i = 0; i < length; i++) values[i] = low + floor(next() * (high - low + 1));
  return values;
}

export function randomSigns(length: number, seed: number): Int8Array {
  const next = random(seed);
  const signs = new Int8Array(length);
  for (let i = 0; i < length; i++) signs[i] = next() < 0.5 ? -1 : 1;
  return signs;
}

export const AWKWARD_ROWS = 11;

/** Rows of hidden that are hard to quantize: of halves, zero, tiny, huge, of one value, or not finite. */
export function awkwardRows(hiddenSize: number): Float32Array {
  const h = new Float32Array(AWKWARD_ROWS * hiddenSize);
  const rows = Array.from({ length: AWKWARD_ROWS }, (_, r) => h.subarray(r * hiddenSize, (r + 1) * hiddenSize));
  rows[0].set(randomIntegers(hiddenSize, -40, 40, 27).map((x) => x + 0.5)); // every quotient is a tie
  rows[0][5] = 127;
  rows[2].fill(1.401298464324817e-45); // absmax / 127 underflows to 0
  rows[3].set(randomFloats(hiddenSize, 28).map((x) => x * 1e-43)); // a subnormal scale
  rows[4].set(randomFloats(hiddenSize, 29).map((x) => x * 3e38));
  rows[5].fill(-7);
  rows[6].set(randomFloats(hiddenSize, 36));
  rows[6][hiddenSize - 1] = NaN;
  rows[7].set(randomFloats(hiddenSize, 37));
  rows[7][0] = Infinity;
  rows[8].fill(-0);
  rows[9].set(randomFloats(hiddenSize, 38).map((x) => x * 3e38));
  rows[9][1] = -Infinity;
  rows[10].fill(3.4028234663852886e38);
  return h;
}

/** A head of given weights, its source tensors disposed. */
export function denseHead(
  weights: Float32Array,
  hiddenSize: number,
  dtype: (typeof DENSE_FORMATS)[number],
  bias?: Float32Array,
): LmHead {
  return madeInTidy(() => {
    const weight = tf.tensor2d(weights, [weights.length / hiddenSize, hiddenSize]);
    return LmHead.dense(weight, { dtype, bias: bias && tf.tensor1d(bias) });
  });
}

export function binaryHead(head: BinaryWeights, bias?: Float32Array): LmHead {
  const { vocabSize, hiddenSize, groupSize } = head;
  return madeInTidy(() => {
    const bits = tf.tensor2d(packSigns(head.signs), [vocabSize, hiddenSize / 32], 'int32');
    const scales = tf.tensor2d(head.scales, [vocabSize, hiddenSize / groupSize]);
    return LmHead.binary({ bits, scales, groupSize, bias: bias && tf.tensor1d(bias) });
  });
}

/** A head outlives the tidy it is made in; the tensors it is made from do not. */
function madeInTidy(make: () => LmHead): LmHead {
  let head!: LmHead;
  tf.tidy(() => {
    head = make();
  });
  return head;
}

/** Hidden and head whose scores are `factor` times wanted logits, exactly, in any format that holds the logits. */
export interface Injected {
  hidden: Tensor2D;
  head: LmHead;
  factor: number;
  dispose: () => void;
}

/**
 * `logits` holds one array a row. Dense: hidden row r is the unit vector r, and column r of the weights are the logits.
 * Binary: hidden row r is 127 in one column of group r (so it quantizes to itself), and the logits are the group's scales.
 * NaN and infinities have to come by `bias`, which all rows share.
 */
export function inject(format: HeadFormat, logits: ArrayLike<number>[], bias?: Float32Array): Injected {
  const rows = logits.length;
  const vocabSize = logits[0].length;
  const groupSize = 32;
  const hiddenSize = format === 'binary' ? rows * groupSize : rows + 2;
  const hidden = new Float32Array(rows * hiddenSize);
  for (let row = 0; row < rows; row++) {
    if (format === 'binary') hidden[row * hiddenSize + row * groupSize] = 127;
    else hidden[row * hiddenSize + row] = 1;
  }
  const columns = format === 'binary' ? rows : hiddenSize;
  const matrix = new Float32Array(vocabSize * columns);
  for (let id = 0; id < vocabSize; id++) {
    for (let row = 0; row < rows; row++) matrix[id * columns + row] = logits[row][id];
  }
  const signs = () => new Int8Array(vocabSize * hiddenSize).fill(1);
  const head =
    format === 'binary'
      ? binaryHead({ vocabSize, hiddenSize, groupSize, signs: signs(), scales: matrix }, bias)
      : denseHead(matrix, hiddenSize, format, bias);
  const hiddenTensor = tf.tensor2d(hidden, [rows, hiddenSize]);
  return {
    hidden: hiddenTensor,
    head,
    factor: format === 'binary' ? 127 : 1,
    dispose: () => {
      hiddenTensor.dispose();
      head.dispose();
    },
  };
}

/** Cuts [rows, V] logits into tensors [rows, size], one a size; the sizes add up to V. */
export function cutShards(logits: Float32Array, rows: number, sizes: readonly number[]): Tensor2D[] {
  const vocabSize = logits.length / rows;
  let first = 0;
  return sizes.map((size) => {
    const shard = new Float32Array(rows * size);
    for (let row = 0; row < rows; row++) {
      shard.set(logits.subarray(row * vocabSize + first, row * vocabSize + first + size), row * size);
    }
    first += size;
    return tf.tensor2d(shard, [rows, size]);
  });
}

/** Unequal sizes of `count` shards that add up to `vocabSize`. */
export function unequalSizes(vocabSize: number, count: number): number[] {
  const sizes = Array.from({ length: count - 1 }, (_, i) =>
    Math.max(1, floor((vocabSize / count) * (0.5 + (i % 3) / 4))),
  );
  return [...sizes, vocabSize - sizes.reduce((sum, size) => sum + size, 0)];
}
