/** Weights of one bit: checks of a binary head's parts, and its packed form. */
import * as tf from '@tensorflow/tfjs-core';
import { MAX_GROUP_SIZE } from '../common/binary_layout';
import { HALF_OVERFLOW } from '../common/half';
import { runKernel } from '../common/run_kernel';
import { checkOptions, describe, fail, shapeText, toBias, toMatrix } from '../common/validate';
import type { BinarizeHeadAttrs, PackBinaryAttrs } from '../kernel_names';
import { BinarizeHead, PackBinary } from '../kernel_names';
import type { HeadData } from './head_data';

/** A binary head in two plain tensors. */
export interface BinaryHeadParts {
  /** int32 [vocabSize, hiddenSize / 32]: bit b of word w is column 32w+b; set means +1, clear means -1. */
  bits: tf.Tensor2D;
  /** float32 [vocabSize, hiddenSize / groupSize]. */
  scales: tf.Tensor2D;
}

export interface BinaryHeadSource {
  /** int32 [vocabSize, hiddenSize / 32]: bit b of word w is column 32w+b; set means +1, clear means -1. */
  bits: tf.Tensor | tf.TensorLike;
  /** float32 [vocabSize, hiddenSize / groupSize], rounded to float16 here. */
  scales: tf.Tensor | tf.TensorLike;
  /** Columns that share a scale: a multiple of 32 that divides hiddenSize, at most 32,768. Default 128. */
  groupSize?: number;
  /** float32 [vocabSize], added to the scores in float32. */
  bias?: tf.Tensor | tf.TensorLike;
}

export type BinarizeHeadOptions = Pick<BinaryHeadSource, 'groupSize' | 'bias'>;

export const DEFAULT_GROUP_SIZE = 128;

/** See `LmHead.binary`, and `lmHeadTopKBinary`, which checks its options itself. Call it within a tidy. */
export function binaryHead(op: string, source: BinaryHeadSource): HeadData {
  const { groupSize = DEFAULT_GROUP_SIZE, bias } = source;
  checkGroupSize(op, groupSize);
  const bits = toMatrix(op, 'bits', source.bits, 'int32', '[vocabulary, hidden / 32]');
  const scales = toMatrix(op, 'scales', source.scales, 'float32', '[vocabulary, hidden / groupSize]');
  const [vocabSize, words] = bits.shape;
  const hiddenSize = 32 * words;
  checkHiddenSize(op, 'bits', hiddenSize, groupSize);
  const groups = hiddenSize / groupSize;
  if (scales.shape[0] !== vocabSize || scales.shape[1] !== groups) {
    fail(op, 'scales', `have shape [${vocabSize},${groups}] to go with bits`, `shape ${shapeText(scales.shape)}`);
  }
  const checkedBias = bias === undefined ? undefined : toBias(op, bias, vocabSize);
  const weight = packBinary(op, { bits, scales }, groupSize, 'scales', 'be finite and not overflow float16');
  return dataOf(vocabSize, hiddenSize, groupSize, weight, checkedBias);
}

/** See `LmHead.binarize`. Call it within a tidy. */
export function binarizedHead(op: string, weight: tf.Tensor | tf.TensorLike, options: BinarizeHeadOptions): HeadData {
  checkOptions(op, options, ['groupSize', 'bias']);
  const { groupSize = DEFAULT_GROUP_SIZE, bias } = options;
  checkGroupSize(op, groupSize);
  const matrix = toMatrix(op, 'weight', weight, 'float32', '[vocabulary, hidden]');
  const [vocabSize, hiddenSize] = matrix.shape;
  checkHiddenSize(op, 'weight', hiddenSize, groupSize);
  const checkedBias = bias === undefined ? undefined : toBias(op, bias, vocabSize);
  const attrs: BinarizeHeadAttrs = { groupSize };
  const [bits, scales] = runKernel<tf.Tensor2D[]>(BinarizeHead, { weight: matrix }, attrs);
  const expected = 'have groups whose mean |w| is finite and does not overflow float16';
  const packed = packBinary(op, { bits, scales }, groupSize, 'weight', expected);
  return dataOf(vocabSize, hiddenSize, groupSize, packed, checkedBias);
}

function dataOf(
  vocabSize: number,
  hiddenSize: number,
  groupSize: number,
  weight: tf.Tensor2D,
  bias?: tf.Tensor1D,
): HeadData {
  return { format: 'binary', vocabSize, hiddenSize, groupSize, transposeWeight: false, tensors: { weight, bias } };
}

/** The limit is that of the CUDA kernels; it holds on every backend, so that a head which works on one works on all. */
function checkGroupSize(op: string, groupSize: unknown): void {
  const size = groupSize as number;
  if (!Number.isInteger(size) || size < 32 || size > MAX_GROUP_SIZE || size % 32 !== 0) {
    fail(op, 'groupSize', `be a multiple of 32 in [32, ${MAX_GROUP_SIZE}]`, describe(groupSize));
  }
}

function checkHiddenSize(op: string, argument: string, hiddenSize: number, groupSize: number): void {
  if (hiddenSize % groupSize !== 0) {
    fail(op, argument, `have a hiddenSize that is a multiple of groupSize (${groupSize})`, `hiddenSize ${hiddenSize}`);
  }
}

/**
 * The one tensor that kernels read, see `LmHeadTopKInputs.weight`.
 * @param argument the op's argument that the scales come from, and
 * @param expected what it must do so that they fit into float16
 */
function packBinary(
  op: string,
  { bits, scales }: BinaryHeadParts,
  groupSize: number,
  argument: string,
  expected: string,
): tf.Tensor2D {
  // One comparison finds NaN and infinities as well: they are not less than the limit.
  if (!tf.all(tf.less(tf.abs(scales), HALF_OVERFLOW.float16)).dataSync()[0]) {
    fail(op, argument, expected, 'a scale that is not');
  }
  const attrs: PackBinaryAttrs = { groupSize };
  return runKernel<tf.Tensor2D>(PackBinary, { bits, scales }, attrs);
}
