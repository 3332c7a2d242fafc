import type * as tf from '@tensorflow/tfjs-core';
import { checkOptions } from '../common/validate';
import { runInGroup } from '../group/shard_exchange';
import type { LmHead } from '../head/lm_head';
import { resolveDecodingCall, scoresOfIds, toIds } from './decoding_call';
import type { HeadOptions } from './head_call';
import { HEAD_OPTIONS } from './head_call';

export type LmHeadScoresOptions = HeadOptions;

/**
 * The scores of given ids alone: those that `lmHeadTopK` would rank. Of the head, no more than the rows of these ids has to be
 * read.
 *
 * ```js
 * const yesAndNo = lmHeadScores(hidden, head, [[9642, 2822]]);  // hidden [1, hiddenSize]; float32 [1, 2]
 * ```
 *
 * Not differentiable.
 *
 * @param hidden float32 [..., hiddenSize], of rank 1 or higher.
 * @param head an `LmHead`, or a plain float32 matrix [vocabSize, hiddenSize].
 * @param ids int32 [..., n] with hidden's leading dimensions, or [rows, n]; with one row also [n]. Each lies in the
 *     vocabulary: they are read, which waits for a GPU that has computed them.
 * @param options as those of `lmHeadTopK` that say what a score is: `bias`, `softCap`, `scale`, `adjust`, `mask`;
 *     `transposeWeight`, `vocabStart`, and `group`, which has to be a transport of your own, and with which every rank gives
 *     the same ids.
 * @returns float32 [..., n]. Without `group`, ids that another shard holds have NaN.
 * @throws Error before anything runs: on a wrong rank, size or dtype, an id out of range, a disposed tensor or head, an unknown
 *     option, or options that do not go with this head. With `group` also when it fails, when its ranks make different calls or
 *     hold the same ids, and on an id that no rank holds.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadScores(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  ids: tf.Tensor | tf.TensorLike,
  options: LmHeadScoresOptions = {},
): tf.Tensor {
  const op = 'lmHeadScores';
  return runInGroup(op, options, true, () => {
    checkOptions(op, options, HEAD_OPTIONS);
    const call = resolveDecodingCall(op, hidden, head, options);
    const { ids: $ids, n } = toIds(op, 'ids', ids, call);
    return scoresOfIds(call, $ids, n, [n]);
  });
}
