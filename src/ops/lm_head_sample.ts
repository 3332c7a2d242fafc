import * as tf from '@tensorflow/tfjs-core';
import { seedWords } from '../common/noise';
import { checkOptions } from '../common/validate';
import { runInGroup } from '../group/shard_exchange';
import type { LmHead } from '../head/lm_head';
import { resolveDecodingCall } from './decoding_call';
import type { DrawOptions } from './draw';
import { checkSeed, draw, DRAW_OPTIONS, seedTensor, toRowIds, toTemperature } from './draw';

export type LmHeadSampleOptions = DrawOptions;

export type LmHeadSampleResult = {
  /** int32 [...]: -1 where every score is -Infinity. */
  ids: tf.Tensor;
  /** float32 [...]. */
  logProbs: tf.Tensor;
};

/**
 * Draws the next token of each row: an exact draw from softmax(score / temperature) over the whole vocabulary, in one sweep.
 *
 * ```js
 * const {ids} = lmHeadSample(hidden, head, {temperature: 0.8, seed: 42, step: position});
 * ```
 *
 * The draw is the id with the best score / temperature + Gumbel noise, which has just that distribution ("Gumbel-max": Gumbel
 * 1954, "Statistical Theory of Extreme Values and Some Practical Applications"; Maddison et al. 2014, "A* Sampling"); of equal
 * sums, the lower id. The noise follows from seed, step, row id and token id alone (Philox4x32-10: Salmon et al. 2011,
 * "Parallel Random Numbers: As Easy as 1, 2, 3"), bit for bit the same on every backend: neither the batch, nor the row's
 * place in it when `rowIds` are given, nor the number of shards changes a draw. From backend to backend that holds as far as
 * the scores agree: always for binary heads, and for others but where two sums are as good as equal.
 *
 * Not differentiable.
 *
 * @param hidden float32 [..., hiddenSize], of rank 1 or higher.
 * @param head an `LmHead`, or a plain float32 matrix [vocabSize, hiddenSize].
 * @param options `seed`, an integer in [0, 2^53); `step` likewise (default 0); `temperature` (default 1), 0 or at least 1e-6,
 *     or float32 [rows], or with hidden's leading dimensions; `rowIds` int32 [rows], or with hidden's leading dimensions, at
 *     least 0 (default: 0, 1, 2, ...). Numbers are checked, tensors are not read. And those of `lmHeadTopK` that say what a
 *     score is: `bias`, `softCap`, `scale`, `adjust`, `mask`; `transposeWeight`, `vocabStart`, and `group`, which has to be a
 *     transport of your own, and with which every rank gives the same seed, step, temperature and rowIds.
 * @returns `ids` int32 [...], and `logProbs` float32 [...]: the log-probability of each at temperature 1, score - logSumExp. A
 *     row whose scores are all -Infinity, such as one where everything is masked, has id -1 and NaN; one with NaN among its
 *     scores has the lowest id of these.
 * @throws Error before anything runs: on a wrong rank, size or dtype, a number out of range, a disposed tensor or head, an
 *     unknown option, or options that do not go with this head. With `group` also when it fails, and when its ranks make
 *     different calls or hold the same ids.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadSample(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  options: LmHeadSampleOptions,
): LmHeadSampleResult {
  const op = 'lmHeadSample';
  return runInGroup(op, options, true, () => {
    checkOptions(op, options, DRAW_OPTIONS);
    const { seed, step = 0 } = options;
    const call = resolveDecodingCall(op, hidden, head, options);
    const temperature = toTemperature(op, options.temperature, call);
    checkSeed(op, seed, step);
    const rowIds = toRowIds(op, options.rowIds, call.leading, call.rows);
    const inputs = { temperature, seed: seedTensor(seed, step), rowIds };
    const { ids, scores, logSumExp } = draw(call, inputs, seedWords(seed, step), true);
    return { ids, logProbs: tf.sub(scores as tf.Tensor, logSumExp as tf.Tensor) };
  });
}
