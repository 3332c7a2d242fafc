import type * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKResult } from './lm_head_topk';
import { topKOfHead } from './lm_head_topk';

/**
 * `lmHeadTopK` for a plain float32 matrix and without options.
 *
 * ```js
 * const {values, indices} = lmHeadTopKDense(tf.randomNormal([1, 768]), tf.randomNormal([50257, 768]), 10);
 * ```
 *
 * @param hidden float32 [..., hiddenSize], of rank 1 or higher.
 * @param weight float32 [vocabSize, hiddenSize].
 * @param k integer in [0, vocabSize]. Default 50.
 * @returns `values` float32 [..., k] and `indices` int32 [..., k], in the order of `lmHeadTopK`.
 * @throws Error as `lmHeadTopK` does.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadTopKDense(
  hidden: tf.Tensor | tf.TensorLike,
  weight: tf.Tensor | tf.TensorLike,
  k = 50,
): LmHeadTopKResult {
  return topKOfHead('lmHeadTopKDense', 'weight', hidden, weight, k, {});
}
