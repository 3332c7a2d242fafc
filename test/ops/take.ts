import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKResult } from 'tfjs-lm-head';

/** Values and ids of a result [rows, k] as nested arrays (`arraySync` drops the rows of an empty one); disposes its tensors. */
export function take({ values, indices }: LmHeadTopKResult): { values: number[][]; ids: number[][] } {
  const nest = (tensor: tf.Tensor) => {
    const [rows, k] = tensor.shape;
    const data = tensor.dataSync();
    return Array.from({ length: rows }, (_, row) => Array.from(data.subarray(row * k, (row + 1) * k)));
  };
  const taken = { values: nest(values), ids: nest(indices) };
  tf.dispose([values, indices]);
  return taken;
}

/** The bits of float32 values, so that a comparison sees the last of them, and the sign of zero; all NaN are equal. */
export function bitsOf(values: ArrayLike<number>): number[] {
  return [...new Int32Array(Float32Array.from(values, (x) => (x === x ? x : NaN)).buffer)];
}
