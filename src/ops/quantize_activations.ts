import * as tf from '@tensorflow/tfjs-core';
import { QuantizeActivations } from '../kernel_names';
import { runKernel } from '../common/run_kernel';
import { fail, shapeText, toTensor } from '../common/validate';

export type QuantizedActivations = {
  /** int32 [..., hiddenSize], in [-127, 127]. */
  q: tf.Tensor;
  /** float32 [...]: hidden is about q * scale. */
  scale: tf.Tensor;
};

/**
 * Rounds hidden vectors to 8 bits a number, as a binary head does it: scale = absmax / 127 of the row, and q = hidden / scale
 * to the nearest integer, ties to even, both in float32.
 *
 * ```js
 * const {q, scale} = quantizeActivations(tf.tensor1d([1, -0.5, 254]));
 * q.print();      // [0, 0, 127]
 * scale.print();  // 2
 * ```
 *
 * @param hidden float32 [..., hiddenSize], of rank 1 or higher.
 * @returns `q` int32 [..., hiddenSize] in [-127, 127] and `scale` float32 [...]. A row whose scale is 0 (all of it is 0, or
 *     too small to divide by 127) has q 0; a row that holds NaN or an infinity has q 0 and scale NaN.
 * @throws Error on a scalar, a hiddenSize of 0, a wrong dtype or a disposed tensor.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function quantizeActivations(hidden: tf.Tensor | tf.TensorLike): QuantizedActivations {
  const op = 'quantizeActivations';
  return tf.tidy(op, () => {
    const $hidden = toTensor(op, 'hidden', hidden, 'float32');
    const { rank, shape } = $hidden;
    if (rank === 0) fail(op, 'hidden', 'have rank 1 or higher', 'a scalar');
    if (shape[rank - 1] === 0) fail(op, 'hidden', 'have inner size 1 or more', `shape ${shapeText(shape)}`);
    if ($hidden.size === 0) return { q: tf.tensor([], shape, 'int32'), scale: tf.tensor([], shape.slice(0, -1)) };
    const [q, scale] = runKernel<tf.Tensor[]>(QuantizeActivations, { hidden: $hidden }, {});
    return { q, scale };
  });
}
