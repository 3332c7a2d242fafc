import * as tf from '@tensorflow/tfjs-core';
import { binaryHead } from '../head/binary_head';
import type { LmHeadTopKResult } from './lm_head_topk';
import { quantizedCall } from './head_call';
import { runTopK } from './lm_head_topk';
import { checkInner, checkInteger, checkOptions, fail, shapeText, toTensor } from '../common/validate';

export interface LmHeadTopKBinaryOptions {
  /** float32 [vocabSize], added to the scores in float32. */
  bias?: tf.Tensor | tf.TensorLike;
  /** Columns that share a scale: a multiple of 32 that divides hiddenSize, at most 32,768. Default 128. */
  groupSize?: number;
  /** How many results; an integer in [0, vocabSize]. Default 50. */
  k?: number;
}

const LARGEST_Q = 127;

/**
 * The best `k` scores of activations that are in 8 bits already against a head of 1-bit weights that lies in two tensors.
 * With `{q, scale} = quantizeActivations(hidden)` it returns the same bits as `lmHeadTopK(hidden, LmHead.binary({bits,
 * scales}), k)`.
 *
 * ```js
 * const {q, scale} = quantizeActivations(hidden);
 * const {values, indices} = lmHeadTopKBinary(q, scale, bits, scales, {k: 10});
 * ```
 *
 * Each call checks and packs the head, which takes longer than finding the best scores: a program that asks the same head
 * again and again should make an `LmHead.binary` once and call `lmHeadTopK`.
 *
 * @param actQ int32 [..., hiddenSize], of rank 1 or higher, in [-127, 127].
 * @param actScale float32 [...]: what each row of actQ is multiplied by. Any number; NaN makes all scores of its row NaN.
 * @param bits int32 [vocabSize, hiddenSize / 32]: bit b of word w is column 32w+b; set means +1, clear means -1.
 * @param scales float32 [vocabSize, hiddenSize / groupSize], any sign; rounded to float16.
 * @param options `bias` float32 [vocabSize]; `groupSize` (default 128, at most 32,768); `k` (default 50).
 * @returns `values` float32 [..., k] and `indices` int32 [..., k], in the order of `lmHeadTopK`.
 * @throws Error on a wrong rank, size or dtype, a disposed tensor, an actQ, groupSize or k out of range, a scale that is not
 *     finite or overflows float16, or an unknown option.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadTopKBinary(
  actQ: tf.Tensor | tf.TensorLike,
  actScale: tf.Tensor | tf.TensorLike,
  bits: tf.Tensor | tf.TensorLike,
  scales: tf.Tensor | tf.TensorLike,
  options: LmHeadTopKBinaryOptions = {},
): LmHeadTopKResult {
  const op = 'lmHeadTopKBinary';
  return tf.tidy(op, () => {
    checkOptions(op, options, ['bias', 'groupSize', 'k']);
    const { bias, groupSize, k = 50 } = options;
    const head = binaryHead(op, { bits, scales, groupSize, bias });
    checkInteger(op, 'k', k, 0, head.vocabSize);

    const $actQ = toTensor(op, 'actQ', actQ, 'int32');
    checkInner(op, 'actQ', $actQ, head.hiddenSize, "the head's hiddenSize");
    const hiddenScale = toTensor(op, 'actScale', actScale, 'float32');
    const leading = $actQ.shape.slice(0, -1);
    if (!tf.util.arraysEqual(hiddenScale.shape, leading)) {
      fail(op, 'actScale', `have shape ${shapeText(leading)} to go with actQ`, `shape ${shapeText(hiddenScale.shape)}`);
    }
    const hidden = tf.cast($actQ, 'float32');
    const largest = hidden.size === 0 ? 0 : tf.max(tf.abs(hidden)).dataSync()[0];
    if (largest > LARGEST_Q) fail(op, 'actQ', `lie in [-${LARGEST_Q}, ${LARGEST_Q}]`, `a magnitude of ${largest}`);
    return runTopK(op, quantizedCall(hidden, hiddenScale, head), k, false);
  });
}
