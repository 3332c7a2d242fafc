/** Floating-point weights in the layout of their format. */
import * as tf from '@tensorflow/tfjs-core';
import type { HalfFormat } from '../common/half';
import { HALF_OVERFLOW } from '../common/half';
import { runKernel } from '../common/run_kernel';
import { checkBoolean, checkOptions, describe, fail, toBias, toMatrix } from '../common/validate';
import type { DenseFormat, PackHalfAttrs } from '../kernel_names';
import { PackHalf } from '../kernel_names';
import type { HeadData } from './head_data';

export interface DenseHeadOptions {
  /** Type the weights are stored in; 'bfloat16' and 'float16' take half the memory. Default 'float32'. */
  dtype?: DenseFormat;
  /** Whether `weight` is [hiddenSize, vocabSize]. Default false. */
  transposed?: boolean;
  /** float32 [vocabSize], added to the scores in float32. */
  bias?: tf.Tensor | tf.TensorLike;
}

/** Elements that a check of weights looks at in one go, so that it needs little memory. */
const CHECK_ELEMENTS = 1 << 24;

/** See `LmHead.dense`. Call it within a tidy. */
export function denseHead(op: string, weight: tf.Tensor | tf.TensorLike, options: DenseHeadOptions): HeadData {
  checkOptions(op, options, ['dtype', 'transposed', 'bias']);
  const { dtype: format = 'float32', transposed = false, bias } = options;
  if (!['float32', 'bfloat16', 'float16'].includes(format)) {
    fail(op, 'dtype', "be 'float32', 'bfloat16' or 'float16'", describe(format));
  }
  checkBoolean(op, 'transposed', transposed);
  const { matrix, vocabSize, hiddenSize } = toWeight(op, 'weight', weight, transposed);
  const checkedBias = bias === undefined ? undefined : toBias(op, bias, vocabSize);
  const packed = format === 'float32' ? matrix : packHalf(op, matrix, format, transposed);
  return {
    format,
    vocabSize,
    hiddenSize,
    groupSize: 0,
    transposeWeight: format === 'float32' && transposed,
    tensors: { weight: packed, bias: checkedBias },
  };
}

/** Checks a float32 matrix [vocabulary, hidden], or [hidden, vocabulary] with `transposed`. */
export function toWeight(
  op: string,
  argument: string,
  weight: tf.Tensor | tf.TensorLike,
  transposed: boolean,
): { matrix: tf.Tensor2D; vocabSize: number; hiddenSize: number } {
  const layout = transposed ? '[hidden, vocabulary]' : '[vocabulary, hidden]';
  const matrix = toMatrix(op, argument, weight, 'float32', layout);
  const [vocabSize, hiddenSize] = transposed ? [matrix.shape[1], matrix.shape[0]] : matrix.shape;
  return { matrix, vocabSize, hiddenSize };
}

function packHalf(op: string, x: tf.Tensor2D, format: HalfFormat, transpose: boolean): tf.Tensor2D {
  const limit = HALF_OVERFLOW[format];
  if (overflows(x, limit)) {
    fail(op, 'weight', `hold no finite number that overflows ${format}`, `a magnitude of at least ${limit}`);
  }
  const attrs: PackHalfAttrs = { format, transpose };
  return runKernel<tf.Tensor2D>(PackHalf, { x }, attrs);
}

/** Whether a finite element's magnitude is at least `limit`; NaN compares false. */
function overflows(matrix: tf.Tensor2D, limit: number): boolean {
  const [rows, columns] = matrix.shape;
  const step = Math.max(1, Math.floor(CHECK_ELEMENTS / columns));
  for (let row = 0; row < rows; row += step) {
    const found = tf.tidy(() => {
      const magnitude = tf.abs(tf.slice(matrix, [row, 0], [Math.min(step, rows - row), columns]));
      return tf.any(tf.logicalAnd(tf.greaterEqual(magnitude, limit), tf.less(magnitude, Infinity))).dataSync()[0];
    });
    if (found) return true;
  }
  return false;
}
