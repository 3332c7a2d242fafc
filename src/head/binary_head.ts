/** What `LmHead` and `lmHeadTopKBinary` share: checks of a binary head's parts, and its packed form. */
import * as tf from '@tensorflow/tfjs-core';
import { MAX_GROUP_SIZE } from '../common/binary_layout';
import { HALF_OVERFLOW } from '../common/half';
import type { PackBinaryAttrs } from '../kernel_names';
import { PackBinary } from '../kernel_names';
import { runKernel } from '../common/run_kernel';
import { describe, fail, shapeText } from '../common/validate';

/** A binary head in two plain tensors. */
export interface BinaryHeadParts {
  /** int32 [vocabSize, hiddenSize / 32]: bit b of word w is column 32w+b; set means +1, clear means -1. */
  bits: tf.Tensor2D;
  /** float32 [vocabSize, hiddenSize / groupSize]. */
  scales: tf.Tensor2D;
}

/** The limit is that of the CUDA kernels; it holds on every backend, so that a head which works on one works on all. */
export function checkGroupSize(op: string, groupSize: unknown): void {
  const size = groupSize as number;
  if (!Number.isInteger(size) || size < 32 || size > MAX_GROUP_SIZE || size % 32 !== 0) {
    fail(op, 'groupSize', `be a multiple of 32 in [32, ${MAX_GROUP_SIZE}]`, describe(groupSize));
  }
}

export function checkHiddenSize(op: string, argument: string, hiddenSize: number, groupSize: number): void {
  if (hiddenSize % groupSize !== 0) {
    fail(op, argument, `have a hiddenSize that is a multiple of groupSize (${groupSize})`, `hiddenSize ${hiddenSize}`);
  }
}

/** Checks the shapes of a binary head that a caller gave. */
export function checkParts(op: string, { bits, scales }: BinaryHeadParts, groupSize: number): void {
  const [vocabSize, words] = bits.shape;
  checkHiddenSize(op, 'bits', 32 * words, groupSize);
  const groups = (32 * words) / groupSize;
  if (scales.shape[0] !== vocabSize || scales.shape[1] !== groups) {
    fail(op, 'scales', `have shape [${vocabSize},${groups}] to go with bits`, `shape ${shapeText(scales.shape)}`);
  }
}

/**
 * The one tensor that kernels read, see `LmHeadTopKInputs.weight`.
 * @param argument the op's argument that the scales come from, and
 * @param expected what it must do so that they fit into float16
 */
export function packBinary(
  op: string,
  { bits, scales }: BinaryHeadParts,
  groupSize: number,
  argument = 'scales',
  expected = 'be finite and not overflow float16',
): tf.Tensor2D {
  // One comparison finds NaN and infinities as well: they are not less than the limit.
  if (!tf.all(tf.less(tf.abs(scales), HALF_OVERFLOW.float16)).dataSync()[0]) {
    fail(op, argument, expected, 'a scale that is not');
  }
  const attrs: PackBinaryAttrs = { groupSize };
  return runKernel<tf.Tensor2D>(PackBinary, { bits, scales }, attrs);
}
