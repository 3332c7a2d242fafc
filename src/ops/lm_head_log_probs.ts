import * as tf from '@tensorflow/tfjs-core';
import { runKernel } from '../common/run_kernel';
import { checkOptions, fail } from '../common/validate';
import { ranksOverTransport } from '../group/decoding_group';
import { runInGroup } from '../group/shard_exchange';
import type { LmHead } from '../head/lm_head';
import type { LmHeadRanksAttrs } from '../kernel_names';
import { LmHeadRanks } from '../kernel_names';
import type { DecodingCall } from './decoding_call';
import { resolveDecodingCall, scoresOfIds, toIds } from './decoding_call';
import type { HeadOptions } from './head_call';
import { HEAD_OPTIONS, headAttrs } from './head_call';

export type LmHeadLogProbsOptions = HeadOptions;

export type LmHeadLogProbsResult = {
  /** float32 [..., n]: score - logSumExp. */
  logProbs: tf.Tensor;
  /** int32 [..., n]: how many ids of the vocabulary come before. */
  ranks: tf.Tensor;
  /** float32 [...]: log(sum of exp(score)) over the whole vocabulary. */
  logSumExp: tf.Tensor;
};

/** Of a row: kernels compare every score of the row with all of them. */
const MAX_IDS = 2048;

/**
 * Log-probabilities of given ids over the whole vocabulary, and their ranks, in one sweep: no [rows, vocabSize] tensor exists,
 * so that thousands of rows, such as a whole prompt, take little memory.
 *
 * ```js
 * // How likely each token of a prompt was: position i predicts token i + 1.
 * const {logProbs, ranks} = lmHeadLogProbs(hidden, head, tf.expandDims(nextTokens, -1));
 * ```
 *
 * The rank is that of the order by which `lmHeadTopK` ranks: NaN first, then the larger score, and of equal scores the lower
 * id. So the id of rank r is the one that `lmHeadTopK` returns at place r.
 *
 * Not differentiable.
 *
 * @param hidden float32 [..., hiddenSize], of rank 1 or higher.
 * @param head an `LmHead`, or a plain float32 matrix [vocabSize, hiddenSize].
 * @param ids int32 [..., n] with hidden's leading dimensions, or [rows, n]; with one row also [n]; n at most 2048. Each lies in
 *     the vocabulary: they are read, which waits for a GPU that has computed them.
 * @param options as those of `lmHeadTopK` that say what a score is: `bias`, `softCap`, `scale`, `adjust`, `mask`;
 *     `transposeWeight`, `vocabStart`, and `group`, which has to be a transport of your own, and with which every rank gives
 *     the same ids. Probabilities are those that the options leave: with a mask, of the ids that are allowed.
 * @returns `logProbs` float32 [..., n] and `ranks` int32 [..., n], and `logSumExp` float32 [...] as `lmHeadTopK` returns it.
 *     The log-probability of an id that is masked is -Infinity, and NaN where all ids are. Without `group`, ids that another
 *     shard holds have NaN.
 * @throws Error before anything runs: on a wrong rank, size or dtype, an id out of range, a disposed tensor or head, an unknown
 *     option, or options that do not go with this head. With `group` also when it fails, when its ranks make different calls or
 *     hold the same ids, and on an id that no rank holds.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadLogProbs(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  ids: tf.Tensor | tf.TensorLike,
  options: LmHeadLogProbsOptions = {},
): LmHeadLogProbsResult {
  const op = 'lmHeadLogProbs';
  return runInGroup(op, options, true, () => {
    checkOptions(op, options, HEAD_OPTIONS);
    const call = resolveDecodingCall(op, hidden, head, options);
    const { ids: $ids, n } = toIds(op, 'ids', ids, call);
    if (n > MAX_IDS) fail(op, 'ids', `have at most ${MAX_IDS} ids a row`, String(n));
    const scores = scoresOfIds(call, $ids, n, [n, 0]);
    const [ranks, logSumExp] = ranksOf(call, $ids, scores, n);
    return { logProbs: tf.sub(scores, tf.expandDims(logSumExp, -1)), ranks, logSumExp };
  });
}

/** [ranks, logSumExp] of ids whose scores are known. */
function ranksOf(call: DecodingCall, ids: tf.Tensor, scores: tf.Tensor, n: number): tf.Tensor[] {
  const { leading, rows, inputs, part } = call;
  if (rows === 0) return [tf.tensor([], [...leading, n], 'int32'), tf.tensor([], leading, 'float32')];
  if (part !== undefined) return ranksOverTransport(part, ids, scores, n, [n, 1]);
  const attrs: LmHeadRanksAttrs = headAttrs(call);
  return runKernel<tf.Tensor[]>(LmHeadRanks, { ...inputs, ids, scores }, attrs);
}
