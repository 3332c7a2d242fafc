/** What the native ops check themselves, for programs that call them without this package's TypeScript. */
import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs } from '../../src/kernel_names';
import {
  LmHeadTopK,
  LocalArgmaxCandidates,
  PackBinary,
  QuantizeActivations,
  UnpackBinary,
  VocabParallelArgmax,
} from '../../src/kernel_names';
import { runKernel } from '../../src/common/run_kernel';
import { activate } from '../backends';

const makeFixture = () => ({
  hidden: tf.ones<tf.Rank.R2>([2, 64]),
  weight: tf.ones<tf.Rank.R2>([5, 64]),
  bias: tf.zeros<tf.Rank.R1>([5]),
  bits: tf.zeros<tf.Rank.R2>([5, 2], 'int32'),
  scales: tf.ones<tf.Rank.R2>([5, 2]),
  hiddenScale: tf.ones<tf.Rank.R1>([2]),
});
type Fixture = ReturnType<typeof makeFixture>;

/** `LmHeadTopK` on inputs and attributes that only a call without the public op can have. */
function rawTopK(inputs: Record<string, tf.Tensor>, attrs: Partial<LmHeadTopKAttrs>): unknown {
  const complete: LmHeadTopKAttrs = {
    format: 'binary',
    k: 1,
    groupSize: 32,
    vocabSize: 5,
    transposeWeight: false,
    vocabStart: 0,
    logSumExp: false,
    ...attrs,
  };
  return runKernel(LmHeadTopK, inputs, complete);
}

/** The weight of a binary head of [5, 64] in groups of 32: a tile of a block and a quad. */
const packed = () => tf.zeros([1, 256 * 4 + 256 * 2], 'int32');

// prettier-ignore
const FAULTS: [what: string, message: string, call: (f: Fixture) => unknown][] = [
  ['PackBinary: bits of rank 1', "PackBinary: input 'bits' must have rank 2, but got shape [5]", (f) => runKernel(PackBinary, { bits: tf.ones([5], 'int32'), scales: f.scales }, { groupSize: 32 })],
  ['PackBinary: scales for other groups', "PackBinary: input 'scales' must have shape [5,1], but got [5,2]", (f) => runKernel(PackBinary, { bits: f.bits, scales: f.scales }, { groupSize: 64 })],
  ['PackBinary: a group size that does not divide', "PackBinary: attribute 'group_size' must be a multiple of 32, at most 32768, that divides 64, but got 96", (f) => runKernel(PackBinary, { bits: f.bits, scales: f.scales }, { groupSize: 96 })],
  ['PackBinary: a group size that is too large', "PackBinary: attribute 'group_size' must be a multiple of 32, at most 32768, that divides 32800, but got 32800", () => runKernel(PackBinary, { bits: tf.ones([1, 1025], 'int32'), scales: tf.ones([1, 1]) }, { groupSize: 32800 })],
  ['UnpackBinary: another layout', "UnpackBinary: input 'packed' must have shape [2,1536], but got [1,1536]", () => runKernel(UnpackBinary, { packed: packed() }, { vocabSize: 257, hiddenSize: 64, groupSize: 32 })],
  ['UnpackBinary: a negative vocabulary', "UnpackBinary: attribute 'vocab_size' must be 0 to 2^31 - 1, but got -1", () => runKernel(UnpackBinary, { packed: packed() }, { vocabSize: -1, hiddenSize: 64, groupSize: 32 })],
  ['UnpackBinary: a group size of 0', "UnpackBinary: attribute 'group_size' must be a multiple of 32, at most 32768, that divides 64, but got 0", () => runKernel(UnpackBinary, { packed: packed() }, { vocabSize: 5, hiddenSize: 64, groupSize: 0 })],
  ['QuantizeActivations: a scalar', "QuantizeActivations: input 'hidden' must have rank 1 or higher, but got a scalar", () => runKernel(QuantizeActivations, { hidden: tf.scalar(1) }, {})],
  ['LmHeadTopK: a binary weight of another layout', "LmHeadTopK: input 'weight' must have shape [1,1536], but got [5,2]", (f) => rawTopK({ hidden: f.hidden, weight: f.bits }, {})],
  ['LmHeadTopK: a binary weight of another vocabulary', "LmHeadTopK: input 'weight' must have shape [2,1536], but got [1,1536]", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { vocabSize: 257 })],
  ['LmHeadTopK: no vocab_size with a binary head', "LmHeadTopK: attribute 'vocab_size' must be at least 1 with format binary, and 0 with another, but got 0", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { vocabSize: 0 })],
  ['LmHeadTopK: a binary weight of another layout in a rank without ids', "LmHeadTopK: input 'weight' must have shape [0,1536], but got [1,1536]", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { vocabSize: 0, group: 1e9 })],
  ['LmHeadTopK: a vocab_size with a dense head', "LmHeadTopK: attribute 'vocab_size' must be at least 1 with format binary, and 0 with another, but got 5", (f) => rawTopK({ hidden: f.hidden, weight: f.weight }, { format: 'float32', groupSize: 0 })],
  ['LmHeadTopK: a group size that does not divide', "LmHeadTopK: attribute 'group_size' must be a multiple of 32, at most 32768, that divides 64, but got 128", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { groupSize: 128 })],
  ['LmHeadTopK: hidden_scale for other rows', "LmHeadTopK: input 'hidden_scale' must have shape [2], but got [5]", (f) => rawTopK({ hidden: f.hidden, weight: packed(), hiddenScale: f.bias }, {})],
  ['LmHeadTopK: hidden_scale with a dense head', "LmHeadTopK: input 'hidden_scale' needs format binary", (f) => rawTopK({ hidden: f.hidden, weight: f.weight, hiddenScale: f.hiddenScale }, { format: 'float32', groupSize: 0, vocabSize: 0 })],
  ['LmHeadTopK: floats for a binary head', "LmHeadTopK: input 'weight' must be int32 for format binary, but got float32", (f) => rawTopK({ hidden: f.hidden, weight: f.weight }, {})],
  ['LmHeadTopK: a vocab_start beyond all integers', "LmHeadTopK: attribute 'vocab_start' must be at least 0 and keep ids below 2^31 - 1, but got 9007199254740991", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { vocabStart: Number.MAX_SAFE_INTEGER })],
  ['LmHeadTopK: the state of a sum over a group', "LmHeadTopK: output 'log_sum_state' is of one shard, not of a group", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { logSumState: true, group: 1e9 })],
  ['LmHeadTopK with host: a k over the vocabulary', "LmHeadTopK: attribute 'k' must be 0 to 5, but got 6", (f) => rawTopK({ hidden: f.hidden, weight: packed() }, { k: 6, host: true })],
  ['LmHeadTopK with host: floats for a binary head', "LmHeadTopK: input 'weight' must be int32 for format binary, but got float32", (f) => rawTopK({ hidden: f.hidden, weight: f.weight }, { host: true })],
  ['LocalArgmaxCandidates: a negative vocab_size', "LocalArgmaxCandidates: attribute 'vocab_size' must be at least 0, but got -1", (f) => runKernel(LocalArgmaxCandidates, { logits: f.hidden }, { vocabStart: 0, vocabSize: -1, columnMajor: false })],
  ['VocabParallelArgmax: a vocab_start whose ids overflow', "VocabParallelArgmax: attribute 'vocab_start' must be at least 0 and keep ids below 2^31 - 1, but got 2147483584", (f) => runKernel(VocabParallelArgmax, { shard0: f.hidden }, { vocabStart: 2 ** 31 - 64, vocabSize: 64, columnMajor: false })],
  ['VocabParallelArgmax with host: shards of other rows', "VocabParallelArgmax: every shard must have rank 2 and the rows of the first, of shape [2,64], but shard 1 has shape [5,64]", (f) => runKernel(VocabParallelArgmax, { shard0: f.hidden, shard1: f.weight }, { vocabStart: 0, vocabSize: 128, columnMajor: false, host: true })],
];

describe('native errors on tensorflow', () => {
  beforeAll(() => activate('tensorflow'));

  it.each(FAULTS)('%s', (_what, message, call) => {
    const before = tf.memory().numTensors;
    tf.tidy(() => {
      const fixture = makeFixture();
      expect(() => call(fixture)).toThrow(message);
    });
    expect(tf.memory().numTensors).toBe(before);
  });
});
