/** One test for each way that an op throws; after each, no tensor has leaked and the next call works. */
import * as tf from '@tensorflow/tfjs-core';
import type { ShardTransport } from 'tfjs-lm-head';
import {
  LmHead,
  lmHeadTopK,
  lmHeadTopKBinary,
  lmHeadTopKDense,
  localArgmaxCandidates,
  pickFromCandidates,
  quantizeActivations,
  registerLmHeadKernels,
  vocabParallelArgmax,
} from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';

/** A transport of two ranks whose other rank does what `answer` says with the numbers of this one. */
function pair(answer: (mine: Int32Array) => unknown): ShardTransport {
  return { rank: 0, worldSize: 2, allGather: (mine) => answer(mine) as Int32Array };
}

/** A pair whose other rank says the same, but for what `change` does to it: [op, rows, k, logSumExp, vocabStart, vocabSize, ...]. */
function twin(change: (theirs: number[]) => void): ShardTransport {
  return pair((mine) => {
    const theirs = Array.from(mine);
    change(theirs);
    return Int32Array.from([...mine, ...theirs]);
  });
}

function broken(): never {
  throw new Error('the cable is out');
}

/** What a test may use; made before and disposed after it, so that a leak shows. */
interface Fixture {
  hidden: tf.Tensor2D;
  weight: tf.Tensor2D;
  bias: tf.Tensor1D;
  bits: tf.Tensor2D;
  scales: tf.Tensor2D;
  head: LmHead;
  biasedHead: LmHead;
  int: tf.Tensor2D;
  /** Scales of `int`. */
  intScale: tf.Tensor1D;
  disposed: tf.Tensor2D;
  disposedHead: LmHead;
}

function makeFixture(): Fixture {
  const weight = tf.ones<tf.Rank.R2>([5, 64]);
  const bias = tf.zeros<tf.Rank.R1>([5]);
  const disposed = tf.ones<tf.Rank.R2>([5, 64]);
  disposed.dispose();
  const disposedHead = LmHead.dense(weight);
  disposedHead.dispose();
  return {
    hidden: tf.ones([2, 64]),
    weight,
    bias,
    bits: tf.zeros([5, 2], 'int32'),
    scales: tf.ones([5, 2]),
    head: LmHead.dense(weight),
    biasedHead: LmHead.dense(weight, { bias }),
    int: tf.ones([2, 64], 'int32'),
    intScale: tf.ones([2]),
    disposed,
    disposedHead,
  };
}

function disposeFixture(fixture: Fixture): void {
  for (const part of Object.values(fixture) as (tf.Tensor | LmHead)[]) if (!part.isDisposed) part.dispose();
}

/** Options as a program without types would give them. */
function untyped<T>(value: unknown): T {
  return value as T;
}

type Fault = [what: string, message: string, call: (f: Fixture) => unknown];

// prettier-ignore
const TOP_K: Fault[] = [
  ['a scalar hidden', "'hidden' must have rank 1 or higher, but got a scalar", (f) => lmHeadTopK(1, f.head, 1)],
  ['a wrong inner size', "'hidden' must have inner size 64 (the head's hiddenSize), but got shape [2,65]", (f) => lmHeadTopK(tf.ones([2, 65]), f.head, 1)],
  ['an int32 hidden', "'hidden' must have dtype float32, but got dtype int32", (f) => lmHeadTopK(f.int, f.head, 1)],
  ['an Int32Array', "'hidden' must have dtype float32, but got dtype int32", (f) => lmHeadTopK(new Int32Array(64), f.head, 1)],
  ['a bool hidden', "'hidden' must have dtype float32, but got dtype bool", (f) => lmHeadTopK([true], f.head, 1)],
  ['no hidden', "'hidden' must be a tensor or numbers that make one, but got undefined", (f) => lmHeadTopK(untyped(undefined), f.head, 1)],
  ['an object as hidden', "'hidden' must be a tensor or numbers that make one, but got a value of type Object (", (f) => lmHeadTopK(untyped({}), f.head, 1)],
  ['ragged numbers', "'hidden' must be a tensor or numbers that make one, but got nested arrays of unequal lengths", (f) => lmHeadTopK([[1], [1, 2]], f.head, 1)],
  ['a disposed hidden', "'hidden' must be a tensor that exists, but got one that has been disposed", (f) => lmHeadTopK(f.disposed, f.head, 1)],
  ['a disposed head', "'head' must be a head that exists, but got one that has been disposed", (f) => lmHeadTopK(f.hidden, f.disposedHead, 1)],
  ['a disposed matrix', "'head' must be a tensor that exists, but got one that has been disposed", (f) => lmHeadTopK(f.hidden, f.disposed, 1)],
  ['an int32 matrix', "'head' must have dtype float32, but got dtype int32", (f) => lmHeadTopK(f.hidden, f.int, 1)],
  ['a matrix of rank 3', "'head' must have shape [vocabulary, hidden], both at least 1, but got shape [1,5,64]", (f) => lmHeadTopK(f.hidden, untyped(tf.ones([1, 5, 64])), 1)],
  ['a matrix without rows', "'head' must have shape [vocabulary, hidden], both at least 1, but got shape [0,64]", (f) => lmHeadTopK(f.hidden, tf.ones([0, 64]), 0)],
  ['no head', "'head' must be a tensor or numbers that make one, but got null", (f) => lmHeadTopK(f.hidden, untyped(null), 1)],
  ['a negative k', "'k' must be an integer in [0, 5], but got -1", (f) => lmHeadTopK(f.hidden, f.head, -1)],
  ['a fractional k', "'k' must be an integer in [0, 5], but got 1.5", (f) => lmHeadTopK(f.hidden, f.head, 1.5)],
  ['a NaN k', "'k' must be an integer in [0, 5], but got NaN", (f) => lmHeadTopK(f.hidden, f.head, NaN)],
  ['a k over the vocabulary', "'k' must be an integer in [0, 5], but got 6", (f) => lmHeadTopK(f.hidden, f.head, 6)],
  ['a k that is text', "'k' must be an integer in [0, 5], but got '3'", (f) => lmHeadTopK(f.hidden, f.head, untyped('3'))],
  ['no k', "'k' must be an integer in [0, 5], but got undefined", (f) => lmHeadTopK(f.hidden, f.head, untyped(undefined))],
  ['a bias of the wrong length', "'bias' must have shape [5] or [2,5] (the vocabulary, for all rows or for each), but got shape [4]", (f) => lmHeadTopK(f.hidden, f.head, 1, { bias: [1, 2, 3, 4] })],
  ['a bias of rank 2', "'bias' must have shape [5] or [2,5] (the vocabulary, for all rows or for each), but got shape [1,5]", (f) => lmHeadTopK(f.hidden, f.weight, 1, { bias: [[1, 2, 3, 4, 5]] })],
  ['an int32 bias', "'bias' must have dtype float32, but got dtype int32", (f) => lmHeadTopK(f.hidden, f.head, 1, { bias: new Int32Array(5) })],
  ['a disposed bias', "'bias' must be a tensor that exists", (f) => lmHeadTopK(f.hidden, f.head, 1, { bias: untyped(f.disposed) })],
  ['a second bias', "'bias' must be left out with an LmHead that has a bias of its own, but got a second one", (f) => lmHeadTopK(f.hidden, f.biasedHead, 1, { bias: f.bias })],
  ['transposeWeight with a head', "'transposeWeight' must be left out with an LmHead, which knows its layout, but got false", (f) => lmHeadTopK(f.hidden, f.head, 1, { transposeWeight: false })],
  ['transposeWeight that is no boolean', "'transposeWeight' must be true or false, but got 1", (f) => lmHeadTopK(f.hidden, f.weight, 1, { transposeWeight: untyped(1) })],
  ['host that is no boolean', "'host' must be true or false, but got 'yes'", (f) => lmHeadTopK(f.hidden, f.head, 1, { host: untyped('yes') })],
  ['logSumExp that is no boolean', "'logSumExp' must be true or false, but got 1", (f) => lmHeadTopK(f.hidden, f.head, 1, { logSumExp: untyped(1) })],
  ['a matrix the other way round', "'hidden' must have inner size 5 (the head's hiddenSize), but got shape [2,64]", (f) => lmHeadTopK(f.hidden, f.weight, 1, { transposeWeight: true })],
  ['a negative vocabStart', "'vocabStart' must be an integer in [0, 2147483642], but got -1", (f) => lmHeadTopK(f.hidden, f.head, 1, { vocabStart: -1 })],
  ['a NaN vocabStart', "'vocabStart' must be an integer in [0, 2147483642], but got NaN", (f) => lmHeadTopK(f.hidden, f.head, 1, { vocabStart: NaN })],
  ['a fractional vocabStart', "'vocabStart' must be an integer in [0, 2147483642], but got 0.5", (f) => lmHeadTopK(f.hidden, f.head, 1, { vocabStart: 0.5 })],
  ['a vocabStart whose ids overflow', "'vocabStart' must be an integer in [0, 2147483642], but got 2147483643", (f) => lmHeadTopK(f.hidden, f.head, 1, { vocabStart: 2 ** 31 - 5 })],
  ['an unknown option', "'options' must have no other keys than bias, softCap, scale, adjust, mask, transposeWeight, vocabStart, group, logSumExp, host, but got 'softcap'", (f) => lmHeadTopK(f.hidden, f.head, 1, untyped({ softcap: 1 }))],
  ['options that are a tensor', "'options' must be an object, but got a float32 tensor of shape [5]", (f) => lmHeadTopK(f.hidden, f.head, 1, untyped(f.bias))],
  ['options that are null', "'options' must be an object, but got null", (f) => lmHeadTopK(f.hidden, f.head, 1, untyped(null))],
];

// prettier-ignore
const TOP_K_DENSE: Fault[] = [
  ['a default k over the vocabulary', "'k' must be an integer in [0, 5], but got 50", (f) => lmHeadTopKDense(f.hidden, f.weight)],
  ['a weight of rank 1', "'weight' must have shape [vocabulary, hidden], both at least 1, but got shape [5]", (f) => lmHeadTopKDense(f.hidden, untyped(f.bias), 1)],
];

// prettier-ignore
const TOP_K_BINARY: Fault[] = [
  ['a scalar actQ', "'actQ' must have rank 1 or higher, but got a scalar", (f) => lmHeadTopKBinary(1, 1, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['a float32 actQ', "'actQ' must have dtype int32, but got dtype float32", (f) => lmHeadTopKBinary(f.hidden, f.intScale, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['a disposed actQ', "'actQ' must be a tensor that exists", (f) => lmHeadTopKBinary(f.disposed, f.intScale, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['an actQ of another size', "'actQ' must have inner size 64 (the head's hiddenSize), but got shape [2,32]", (f) => lmHeadTopKBinary(tf.ones([2, 32], 'int32'), f.intScale, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['an actQ of -128', "'actQ' must lie in [-127, 127], but got a magnitude of 128", (f) => lmHeadTopKBinary(tf.fill([2, 64], -128, 'int32'), f.intScale, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['an actQ of 128', "'actQ' must lie in [-127, 127], but got a magnitude of 128", (f) => lmHeadTopKBinary(tf.fill([2, 64], 128, 'int32'), f.intScale, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['the least actQ', "'actQ' must lie in [-127, 127], but got a magnitude of 2147483648", (f) => lmHeadTopKBinary(tf.fill([2, 64], -(2 ** 31), 'int32'), f.intScale, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['an actScale for other rows', "'actScale' must have shape [2] to go with actQ, but got shape [5]", (f) => lmHeadTopKBinary(f.int, f.bias, f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['an actScale of another rank', "'actScale' must have shape [2] to go with actQ, but got shape [2,1]", (f) => lmHeadTopKBinary(f.int, [[1], [1]], f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['an int32 actScale', "'actScale' must have dtype float32, but got dtype int32", (f) => lmHeadTopKBinary(f.int, new Int32Array(2), f.bits, f.scales, { groupSize: 32, k: 1 })],
  ['float32 bits', "'bits' must have dtype int32, but got dtype float32", (f) => lmHeadTopKBinary(f.int, f.intScale, f.scales, f.scales, { groupSize: 32, k: 1 })],
  ['bits of rank 1', "'bits' must have shape [vocabulary, hidden / 32], both at least 1, but got shape [2]", (f) => lmHeadTopKBinary(f.int, f.intScale, [1, 2], f.scales, { groupSize: 32, k: 1 })],
  ['int32 scales', "'scales' must have dtype float32, but got dtype int32", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.bits, { groupSize: 32, k: 1 })],
  ['scales for other groups', "'scales' must have shape [5,1] to go with bits, but got shape [5,2]", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.scales, { groupSize: 64, k: 1 })],
  ['a scale that overflows float16', "'scales' must be finite and not overflow float16, but got a scale that is not", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, tf.fill([5, 2], 65520), { groupSize: 32, k: 1 })],
  ['a group size that is no multiple of 32', "'groupSize' must be a multiple of 32 in [32, 32768], but got 16", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.scales, { groupSize: 16, k: 1 })],
  ['a default group size that does not divide', "'bits' must have a hiddenSize that is a multiple of groupSize (128), but got hiddenSize 64", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.scales, { k: 1 })],
  ['a default k over the vocabulary', "'k' must be an integer in [0, 5], but got 50", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.scales, { groupSize: 32 })],
  ['a bias of the wrong length', "'bias' must have shape [5] (the vocabulary), but got shape [1]", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.scales, { groupSize: 32, k: 1, bias: [1] })],
  ['an unknown option', "'options' must have no other keys than bias, groupSize, k, but got 'vocabStart'", (f) => lmHeadTopKBinary(f.int, f.intScale, f.bits, f.scales, untyped({ groupSize: 32, k: 1, vocabStart: 1 }))],
];

// prettier-ignore
const QUANTIZE: Fault[] = [
  ['a scalar', "'hidden' must have rank 1 or higher, but got a scalar", () => quantizeActivations(3)],
  ['rows of nothing', "'hidden' must have inner size 1 or more, but got shape [2,0]", () => quantizeActivations(tf.ones([2, 0]))],
  ['an int32 hidden', "'hidden' must have dtype float32, but got dtype int32", (f) => quantizeActivations(f.int)],
  ['a disposed hidden', "'hidden' must be a tensor that exists", (f) => quantizeActivations(f.disposed)],
];

// prettier-ignore
const UNPACK: Fault[] = [
  ['a dense head', "'head' must be binary, but got one in float32", (f) => f.head.unpack()],
  ['a disposed head', "'head' must be a head that exists, but got one that has been disposed", (f) => {
    const head = LmHead.binary({ bits: f.bits, scales: f.scales, groupSize: 32 });
    head.dispose();
    head.unpack();
  }],
];

// prettier-ignore
const DENSE_HEAD: Fault[] = [
  ['an unknown dtype', "'dtype' must be 'float32', 'bfloat16' or 'float16', but got 'int8'", (f) => LmHead.dense(f.weight, untyped({ dtype: 'int8' }))],
  ['an unknown option', "'options' must have no other keys than dtype, transposed, bias, but got 'transpose'", (f) => LmHead.dense(f.weight, untyped({ transpose: true }))],
  ['transposed that is no boolean', "'transposed' must be true or false, but got 'yes'", (f) => LmHead.dense(f.weight, untyped({ transposed: 'yes' }))],
  ['a weight of rank 1', "'weight' must have shape [vocabulary, hidden], both at least 1, but got shape [5]", (f) => LmHead.dense(untyped(f.bias))],
  ['a weight of rank 1, transposed', "'weight' must have shape [hidden, vocabulary], both at least 1, but got shape [5]", (f) => LmHead.dense(untyped(f.bias), { transposed: true })],
  ['an int32 weight', "'weight' must have dtype float32, but got dtype int32", (f) => LmHead.dense(f.int, { dtype: 'bfloat16' })],
  ['a disposed weight', "'weight' must be a tensor that exists", (f) => LmHead.dense(f.disposed)],
  ['a bias of the wrong length', "'bias' must have shape [5] (the vocabulary), but got shape [64]", (f) => LmHead.dense(f.weight, { bias: tf.zeros([64]) })],
  ['a weight that overflows float16', "'weight' must hold no finite number that overflows float16, but got a magnitude of at least 65520", () => LmHead.dense([[1], [-65520]], { dtype: 'float16' })],
  ['a weight that overflows bfloat16', "'weight' must hold no finite number that overflows bfloat16", () => LmHead.dense([[3.4e38, NaN]], { dtype: 'bfloat16' })],
];

// prettier-ignore
const BINARY_HEAD: Fault[] = [
  ['a group size that is no multiple of 32', "'groupSize' must be a multiple of 32 in [32, 32768], but got 48", (f) => LmHead.binary({ bits: f.bits, scales: f.scales, groupSize: 48 })],
  ['a group size that is too large', "'groupSize' must be a multiple of 32 in [32, 32768], but got 32800", () => LmHead.binary({ bits: tf.ones([1, 1025], 'int32'), scales: tf.ones([1, 1]), groupSize: 32800 })],
  ['a NaN group size', "'groupSize' must be a multiple of 32 in [32, 32768], but got NaN", (f) => LmHead.binary({ bits: f.bits, scales: f.scales, groupSize: NaN })],
  ['a group size of 0', "'groupSize' must be a multiple of 32 in [32, 32768], but got 0", (f) => LmHead.binary({ bits: f.bits, scales: f.scales, groupSize: 0 })],
  ['a hiddenSize that is no multiple of groupSize', "'bits' must have a hiddenSize that is a multiple of groupSize (128), but got hiddenSize 64", (f) => LmHead.binary({ bits: f.bits, scales: f.scales })],
  ['scales for other groups', "'scales' must have shape [5,1] to go with bits, but got shape [5,2]", (f) => LmHead.binary({ bits: f.bits, scales: f.scales, groupSize: 64 })],
  ['scales for another vocabulary', "'scales' must have shape [5,2] to go with bits, but got shape [4,2]", (f) => LmHead.binary({ bits: f.bits, scales: tf.ones([4, 2]), groupSize: 32 })],
  ['float32 bits', "'bits' must have dtype int32, but got dtype float32", (f) => LmHead.binary({ bits: f.scales, scales: f.scales, groupSize: 32 })],
  ['bits of rank 1', "'bits' must have shape [vocabulary, hidden / 32], both at least 1, but got shape [3]", (f) => LmHead.binary({ bits: [1, 2, 3], scales: f.scales, groupSize: 32 })],
  ['int32 scales', "'scales' must have dtype float32, but got dtype int32", (f) => LmHead.binary({ bits: f.bits, scales: f.bits, groupSize: 32 })],
  ['disposed scales', "'scales' must be a tensor that exists", (f) => LmHead.binary({ bits: f.bits, scales: f.disposed, groupSize: 32 })],
  ['a scale that overflows float16', "'scales' must be finite and not overflow float16, but got a scale that is not", (f) => LmHead.binary({ bits: f.bits, scales: tf.fill([5, 2], -65520), groupSize: 32 })],
  ['an infinite scale', "'scales' must be finite and not overflow float16", (f) => LmHead.binary({ bits: f.bits, scales: tf.fill([5, 2], Infinity), groupSize: 32 })],
  ['a NaN scale', "'scales' must be finite and not overflow float16", (f) => LmHead.binary({ bits: f.bits, scales: tf.fill([5, 2], NaN), groupSize: 32 })],
  ['a bias of the wrong length', "'bias' must have shape [5] (the vocabulary), but got shape [1]", (f) => LmHead.binary({ bits: f.bits, scales: f.scales, groupSize: 32, bias: [1] })],
  ['no scales', "'scales' must be a tensor or numbers that make one, but got undefined", (f) => LmHead.binary(untyped({ bits: f.bits }))],
  ['an unknown key', "'options' must have no other keys than bits, scales, groupSize, bias, but got 'group'", (f) => LmHead.binary(untyped({ bits: f.bits, scales: f.scales, group: 32 }))],
  ['nothing', "'options' must be an object, but got undefined", () => LmHead.binary(untyped(undefined))],
];

// prettier-ignore
const BINARIZE: Fault[] = [
  ['a hiddenSize that is no multiple of 32', "'weight' must have a hiddenSize that is a multiple of groupSize (32), but got hiddenSize 33", () => LmHead.binarize(tf.ones([2, 33]), { groupSize: 32 })],
  ['a hiddenSize that is no multiple of groupSize', "'weight' must have a hiddenSize that is a multiple of groupSize (128), but got hiddenSize 64", (f) => LmHead.binarize(f.weight)],
  ['a group size that is too large', "'groupSize' must be a multiple of 32 in [32, 32768], but got 65536", () => LmHead.binarize(tf.ones([1, 65536]), { groupSize: 65536 })],
  ['a fractional group size', "'groupSize' must be a multiple of 32 in [32, 32768], but got 32.5", (f) => LmHead.binarize(f.weight, { groupSize: 32.5 })],
  ['a mean that overflows float16', "'weight' must have groups whose mean |w| is finite and does not overflow float16", () => LmHead.binarize(tf.fill([2, 32], -65520), { groupSize: 32 })],
  ['a NaN weight', "'weight' must have groups whose mean |w| is finite", () => LmHead.binarize(tf.fill([2, 32], NaN), { groupSize: 32 })],
  ['an int32 weight', "'weight' must have dtype float32, but got dtype int32", (f) => LmHead.binarize(f.int, { groupSize: 32 })],
  ['a bias of the wrong length', "'bias' must have shape [5] (the vocabulary), but got shape [1]", (f) => LmHead.binarize(f.weight, { groupSize: 32, bias: [1] })],
  ['an unknown option', "'options' must have no other keys than groupSize, bias, but got 'dtype'", (f) => LmHead.binarize(f.weight, untyped({ dtype: 'binary' }))],
];

// prettier-ignore
const ARGMAX: Fault[] = [
  ['a scalar', "'logits' must have rank 1 or higher, but got a scalar", () => vocabParallelArgmax(3)],
  ['no columns', "'logits' must have at least one column, but got shape [2,0]", () => vocabParallelArgmax(tf.ones([2, 0]))],
  ['int32 logits', "'logits' must have dtype float32, but got dtype int32", (f) => vocabParallelArgmax(f.int)],
  ['disposed logits', "'logits' must be a tensor that exists", (f) => vocabParallelArgmax(f.disposed)],
  ['a disposed shard', "'logits[1]' must be a tensor that exists", (f) => vocabParallelArgmax([f.weight, f.disposed])],
  ['no shards', "'logits' must hold at least one shard, but got an empty array", () => vocabParallelArgmax([])],
  ['shards of different rows', "'logits[1]' must have rows of shape [2], as logits[0], but got [5]", (f) => vocabParallelArgmax([f.hidden, f.weight])],
  ['a shard that is no tensor', "'logits[1]' must be a tensor or numbers that make one, but got null", (f) => vocabParallelArgmax(untyped([f.hidden, null]))],
  ['a vocabSize of 0', "'vocabSize' must be an integer in [1, 64], but got 0", (f) => vocabParallelArgmax(f.hidden, { vocabSize: 0 })],
  ['a vocabSize over the columns', "'vocabSize' must be an integer in [1, 128], but got 129", (f) => vocabParallelArgmax([f.hidden, f.hidden], { vocabSize: 129 })],
  ['a NaN vocabSize', "'vocabSize' must be an integer in [1, 64], but got NaN", (f) => vocabParallelArgmax(f.hidden, { vocabSize: NaN })],
  ['a vocabStart whose ids overflow', "'vocabStart' must be an integer in [0, 2147483583], but got 2147483584", (f) => vocabParallelArgmax(f.hidden, { vocabStart: 2 ** 31 - 64 })],
  ['a fractional vocabStart', "'vocabStart' must be an integer in [0, 2147483583], but got 0.5", (f) => vocabParallelArgmax(f.hidden, { vocabStart: 0.5 })],
  ['host that is no boolean', "'host' must be true or false, but got 1", (f) => vocabParallelArgmax(f.hidden, { host: untyped(1) })],
  ['columnMajor that is no boolean', "'columnMajor' must be true or false, but got 'F'", (f) => vocabParallelArgmax(f.hidden, { columnMajor: untyped('F') })],
  ['column-major logits of rank 1', "'logits' must have shape [columns, rows] when columnMajor is set, but got shape [5]", (f) => vocabParallelArgmax(f.bias, { columnMajor: true })],
  ['column-major logits without columns', "'logits' must have at least one column, but got shape [0,5]", () => vocabParallelArgmax(tf.ones([0, 5]), { columnMajor: true })],
  ['an unknown option', "'options' must have no other keys than vocabStart, vocabSize, columnMajor, group, host, but got 'axis'", (f) => vocabParallelArgmax(f.hidden, untyped({ axis: 1 }))],
];

// prettier-ignore
const CANDIDATES: Fault[] = [
  ['int32 logits', "'logits' must have dtype float32, but got dtype int32", (f) => localArgmaxCandidates(f.int)],
  ['a negative vocabSize', "'vocabSize' must be an integer in [0, 64], but got -1", (f) => localArgmaxCandidates(f.hidden, { vocabSize: -1 })],
  ['an unknown option', "'options' must have no other keys than vocabStart, vocabSize, columnMajor, but got 'group'", (f) => localArgmaxCandidates(f.hidden, untyped({ group: 1 }))],
];

// prettier-ignore
const PICK: Fault[] = [
  ['candidates of rank 2', "'candidates' must have shape [ranks, rows, 16], ranks at least 1, but got shape [2,16]", () => pickFromCandidates(untyped(tf.zeros([2, 16], 'int32')))],
  ['candidates of another width', "'candidates' must have shape [ranks, rows, 16], ranks at least 1, but got shape [1,2,8]", () => pickFromCandidates(tf.zeros([1, 2, 8], 'int32'))],
  ['no ranks', "'candidates' must have shape [ranks, rows, 16], ranks at least 1, but got shape [0,2,16]", () => pickFromCandidates(tf.zeros([0, 2, 16], 'int32'))],
  ['float32 candidates', "'candidates' must have dtype int32, but got dtype float32", () => pickFromCandidates(tf.zeros([1, 2, 16]))],
  ['disposed candidates', "'candidates' must be a tensor that exists", (f) => pickFromCandidates(untyped(f.disposed))],
];

// prettier-ignore
const ARGMAX_GROUP: Fault[] = [
  ['a group without allGather', "'group' must be a TensorParallelGroup or {rank, worldSize, allGather}, but got a value of type Object", (f) => vocabParallelArgmax(f.hidden, { group: untyped({ rank: 0, worldSize: 2 }) })],
  ['a group that is null', "'group' must be a TensorParallelGroup or {rank, worldSize, allGather}, but got null", (f) => vocabParallelArgmax(f.hidden, { group: untyped(null) })],
  ['a world of no ranks', "'group.worldSize' must be an integer in [1, 2147483647], but got 0", (f) => vocabParallelArgmax(f.hidden, { group: { ...pair(broken), worldSize: 0 } })],
  ['a rank that is not in the world', "'group.rank' must be an integer in [0, 1], but got 2", (f) => vocabParallelArgmax(f.hidden, { group: { ...pair(broken), rank: 2 } })],
  ['several shards', "'logits' must be one tensor, this rank's shard, when group is set, but got an array of 2", (f) => vocabParallelArgmax([f.hidden, f.hidden], { group: pair(broken) })],
  ['no columns where there is one rank', "'logits' must have at least one column, but got shape [2,0]", () => vocabParallelArgmax(tf.ones([2, 0]), { group: { ...pair(broken), worldSize: 1 } })],
  ['a vocabSize over the columns', "'vocabSize' must be an integer in [0, 64], but got 65", (f) => vocabParallelArgmax(f.hidden, { vocabSize: 65, group: pair(broken) })],
  ['too few numbers from all', "'group.allGather' must return 2 x 38 numbers, by rank, but got 38 (do all ranks make the same call?)", (f) => vocabParallelArgmax(f.hidden, { group: pair((mine) => mine) })],
  ['numbers of another type', "'group.allGather' must return an Int32Array, but got a value of type Float32Array", (f) => vocabParallelArgmax(f.hidden, { group: pair((mine) => new Float32Array(2 * mine.length)) })],
  ['a promise', "'group.allGather' must return an Int32Array, but got a value of type Promise", (f) => vocabParallelArgmax(f.hidden, { group: pair((mine) => Promise.resolve(mine)) })],
  ['no numbers', "'group.allGather' must return an Int32Array, but got undefined", (f) => vocabParallelArgmax(f.hidden, { group: pair(() => undefined) })],
  ['a rank with other rows', "'group' must see the same call from every rank (vocabParallelArgmax, 2 rows), but got vocabParallelArgmax, 3 rows from rank 1", (f) => vocabParallelArgmax(f.hidden, { group: twin((theirs) => theirs[1]++) })],
  ['a rank with another op', "'group' must see the same call from every rank (vocabParallelArgmax, 2 rows), but got lmHeadTopK, 2 rows, k 1 from rank 1", (f) => vocabParallelArgmax(f.hidden, { group: twin((theirs) => theirs[0]++) })],
  ['numbers of something else', "'group' must see the same call from every rank (vocabParallelArgmax, 2 rows), but got no call from rank 1", (f) => vocabParallelArgmax(f.hidden, { group: twin((theirs) => (theirs[0] = 0)) })],
  ['the same ids in two ranks', "'vocabStart' must give every rank ids of its own, but got [5, 69) in rank 0 and [5, 69) in rank 1", (f) => vocabParallelArgmax(f.hidden, { vocabStart: 5, group: twin(() => undefined) })],
  ['ids that overlap by one', "'vocabStart' must give every rank ids of its own, but got [0, 6) in rank 1 and [5, 69) in rank 0", (f) => vocabParallelArgmax(f.hidden, { vocabStart: 5, group: twin((theirs) => theirs.splice(4, 2, 0, 6)) })],
  ['a vocabulary without ids', "'group' must hold at least one id of the vocabulary, but got none in any rank", (f) => vocabParallelArgmax(f.hidden, { vocabSize: 0, group: twin(() => undefined) })],
];

// prettier-ignore
const TOP_K_GROUP: Fault[] = [
  ['a group without allGather', "'group' must be a TensorParallelGroup or {rank, worldSize, allGather}, but got 'nccl'", (f) => lmHeadTopK(f.hidden, f.head, 1, { group: untyped('nccl') })],
  ['a k over all shards', "'k' must be an integer in [0, 10], but got 11", (f) => lmHeadTopK(f.hidden, f.head, 11, { group: twin((theirs) => (theirs[4] = 5)) })],
  ['a k that no vocabulary has', "'k' must be an integer in [0, 134217728], but got 134217729", (f) => lmHeadTopK(f.hidden, f.head, 2 ** 27 + 1, { group: pair(broken) })],
  ['another k', "'group' must see the same call from every rank (lmHeadTopK, 2 rows, k 1, logSumExp), but got lmHeadTopK, 2 rows, k 1 from rank 1", (f) => lmHeadTopK(f.hidden, f.head, 1, { logSumExp: true, group: twin((theirs) => theirs[3]--) })],
  ['the same ids in two ranks', "'vocabStart' must give every rank ids of its own, but got [0, 5) in rank 0 and [0, 5) in rank 1", (f) => lmHeadTopK(f.hidden, f.head, 1, { group: twin(() => undefined) })],
];

// prettier-ignore
const SHARD_HEAD: Fault[] = [
  ['a rank that is not in the world', "'rank' must be an integer in [0, 1], but got 2", (f) => LmHead.shard(f.weight, { rank: 2, worldSize: 2 })],
  ['no worldSize', "'worldSize' must be an integer in [1, 2147483647], but got undefined", (f) => LmHead.shard(f.weight, untyped({ rank: 0 }))],
  ['a multipleOf of 0', "'multipleOf' must be an integer in [1, 2147483647], but got 0", (f) => LmHead.shard(f.weight, { rank: 0, worldSize: 2, multipleOf: 0 })],
  ['an unknown format', "'format' must be 'float32', 'bfloat16', 'float16' or 'binary', but got 'int8'", (f) => LmHead.shard(f.weight, untyped({ rank: 0, worldSize: 2, format: 'int8' }))],
  ['a transposed binary head', "'transposed' must be left out with format 'binary', but got true", (f) => LmHead.shard(f.weight, { rank: 0, worldSize: 2, format: 'binary', transposed: true })],
  ['transposed that is no boolean', "'transposed' must be true or false, but got 1", (f) => LmHead.shard(f.weight, untyped({ rank: 0, worldSize: 2, transposed: 1 }))],
  ['groupSize with a dense format', "'groupSize' must be left out with format 'float32', but got 128", (f) => LmHead.shard(f.weight, { rank: 0, worldSize: 2, groupSize: 128 })],
  ['an int32 weight', "'weight' must have dtype float32, but got dtype int32", (f) => LmHead.shard(f.int, { rank: 0, worldSize: 2 })],
  ['a group size that does not divide', "'weight' must have a hiddenSize that is a multiple of groupSize (128), but got hiddenSize 64", (f) => LmHead.shard(f.weight, { rank: 0, worldSize: 2, format: 'binary' })],
  ['a group size that is no multiple of 32', "'groupSize' must be a multiple of 32 in [32, 32768], but got 48", (f) => LmHead.shard(f.weight, { rank: 0, worldSize: 2, format: 'binary', groupSize: 48 })],
  ['a weight that overflows', "'weight' must hold no finite number that overflows float16, but got a magnitude of at least 65520", () => LmHead.shard([[65520]], { rank: 0, worldSize: 2, format: 'float16' })],
  ['a weight of rank 1', "'weight' must have shape [vocabulary, hidden], both at least 1, but got shape [5]", (f) => LmHead.shard(untyped(f.bias), { rank: 0, worldSize: 2 })],
  ['a bias of the shard', "'bias' must have shape [5] (the vocabulary), but got shape [1]", (f) => LmHead.shard(f.weight, { rank: 0, worldSize: 2, bias: [1] })],
  ['an unknown option', "'options' must have no other keys than rank, worldSize, multipleOf, format, bias, transposed, groupSize, but got 'dtype'", (f) => LmHead.shard(f.weight, untyped({ rank: 0, worldSize: 2, dtype: 'float16' }))],
];

// prettier-ignore
const SHARD_RANGE: Fault[] = [
  ['a vocabulary of 0', "'vocabSize' must be an integer in [1, 2147483647], but got 0", () => LmHead.shardRange(0, { rank: 0, worldSize: 2 })],
  ['a rank that is not in the world', "'rank' must be an integer in [0, 1], but got -1", () => LmHead.shardRange(5, { rank: -1, worldSize: 2 })],
  ['an unknown option', "'options' must have no other keys than rank, worldSize, multipleOf, but got 'padTo'", () => LmHead.shardRange(5, untyped({ rank: 0, worldSize: 2, padTo: 8 }))],
];

describeEachBackend('errors', () => {
  let fixture: Fixture;
  let numTensors: number;

  beforeEach(() => {
    numTensors = tf.memory().numTensors;
    fixture = makeFixture();
  });
  afterEach(() => {
    disposeFixture(fixture);
    expect(tf.memory().numTensors).toBe(numTensors);
  });

  describe.each<[string, Fault[]]>([
    ['lmHeadTopK', TOP_K],
    ['lmHeadTopKDense', TOP_K_DENSE],
    ['lmHeadTopKBinary', TOP_K_BINARY],
    ['quantizeActivations', QUANTIZE],
    ['LmHead.dense', DENSE_HEAD],
    ['LmHead.binary', BINARY_HEAD],
    ['LmHead.binarize', BINARIZE],
    ['LmHead.unpack', UNPACK],
    ['vocabParallelArgmax', ARGMAX],
    ['localArgmaxCandidates', CANDIDATES],
    ['pickFromCandidates', PICK],
    ['vocabParallelArgmax', ARGMAX_GROUP],
    ['lmHeadTopK', TOP_K_GROUP],
    ['LmHead.shard', SHARD_HEAD],
    ['LmHead.shardRange', SHARD_RANGE],
  ])('%s refuses', (op, faults) => {
    it.each(faults)('%s', (_what, message, call) => {
      const before = tf.memory().numTensors;
      // the tidy frees what the call itself is given; a head or a kept tensor would survive it
      tf.tidy(() => expect(() => call(fixture)).toThrow(`Error in ${op}: argument ${message}`));
      expect(tf.memory().numTensors).toBe(before);
      const { values, indices } = lmHeadTopK(fixture.hidden, fixture.head, 2);
      expect(indices.arraySync()).toEqual([
        [0, 1],
        [0, 1],
      ]);
      expect(values.arraySync()).toEqual([
        [64, 64],
        [64, 64],
      ]);
      tf.dispose([values, indices]);
    });
  });

  it('frees a tensor made from numbers when the call throws', () => {
    const before = tf.memory().numTensors;
    expect(() => lmHeadTopK([[1, 2]], [[1, 2]], 2)).toThrow("argument 'k'");
    expect(() => vocabParallelArgmax([[1, 2]], { vocabSize: 3 })).toThrow("argument 'vocabSize'");
    expect(() => LmHead.dense([[1, 2]], { bias: [1, 2] })).toThrow("argument 'bias'");
    expect(() => LmHead.dense([[65520]], { dtype: 'float16' })).toThrow("argument 'weight'");
    expect(() => LmHead.binarize([new Float32Array(32).fill(NaN)], { groupSize: 32 })).toThrow("argument 'weight'");
    expect(tf.memory().numTensors).toBe(before);
  });

  it('hands on why a transport failed, and leaves nothing behind', () => {
    const { hidden, head } = fixture;
    const before = tf.memory().numTensors;
    const failure = (call: () => unknown) => {
      try {
        call();
      } catch (error) {
        return error as Error;
      }
      return undefined;
    };
    for (let i = 0; i < 10; i++) {
      const argmax = failure(() => vocabParallelArgmax(hidden, { group: pair(broken) }));
      expect(argmax?.message).toBe('Error in vocabParallelArgmax: allGather failed in rank 0: the cable is out');
      expect((argmax?.cause as Error).message).toBe('the cable is out');
      const topK = failure(() => lmHeadTopK(hidden, head, 3, { logSumExp: true, group: pair(broken) }));
      expect(topK?.message).toBe('Error in lmHeadTopK: allGather failed in rank 0: the cable is out');
    }
    expect(tf.memory().numTensors).toBe(before);
  });

  it('says in a gradient that there is none', () => {
    const call = () => tf.grad((h) => lmHeadTopK(h, fixture.weight, 3).values)(fixture.hidden);
    expect(call).toThrow('gradient function not found for LmHeadTopK');
  });
});

describe('registerLmHeadKernels', () => {
  it.each([[''], [5], [null]])('refuses %p as a name', (name) => {
    expect(() => registerLmHeadKernels(untyped(name))).toThrow(
      "Error in registerLmHeadKernels: argument 'backendName' must be a backend's name, but got",
    );
  });
});
