import * as tf from '@tensorflow/tfjs-core';
import { runKernel } from '../common/run_kernel';
import { checkBoolean, checkInteger, checkOptions } from '../common/validate';
import { largestShardedK, topKOverTransport } from '../group/lm_head_topk_group';
import { runInGroup } from '../group/shard_exchange';
import { LmHead } from '../head/lm_head';
import type { LmHeadTopKAttrs } from '../kernel_names';
import { LmHeadTopK } from '../kernel_names';
import type { HeadCall, HeadOptions } from './head_call';
import { HEAD_OPTIONS, makesTensors, resolveCall } from './head_call';

export interface LmHeadTopKOptions extends HeadOptions {
  /** Whether to return `logSumExp` as well. Default false. */
  logSumExp?: boolean;
  /** Whether the call waits for the results and brings them to host memory, so that reading them is free. Default false. */
  host?: boolean;
}

const OPTIONS = [...HEAD_OPTIONS, 'logSumExp', 'host'];

export type LmHeadTopKResult = {
  /** float32 [..., k], the best first. */
  values: tf.Tensor;
  /** int32 [..., k]. */
  indices: tf.Tensor;
  /** float32 [...], with the option of that name: log(sum of exp(score)) over the whole vocabulary. */
  logSumExp?: tf.Tensor;
};

/** What `lmHeadTopK` returns with `logSumExp: true`. */
export type LmHeadTopKLogSumExpResult = Required<LmHeadTopKResult>;

/**
 * Multiplies hidden vectors by the vocabulary matrix of a language model and returns the best `k` scores of each, with
 * their ids. The same as `tf.topk(tf.matMul(hidden, head, false, true), k)`, but the scores are never written to memory.
 *
 * ```js
 * const head = LmHead.dense(tf.randomNormal([50257, 768]), {dtype: 'bfloat16'});
 * const {values, indices} = lmHeadTopK(tf.randomNormal([1, 768]), head, 50);
 * indices.print();
 * ```
 *
 * With `logSumExp`, the same sweep gives what turns scores into log-probabilities over the whole vocabulary:
 *
 * ```js
 * const {values, logSumExp} = lmHeadTopK(hidden, head, 50, {logSumExp: true});
 * const logProbabilities = tf.sub(values, tf.expandDims(logSumExp, -1));
 * ```
 *
 * With `group` the head is cut into shards that lie in several processes. Each gives its own shard; all get the same result,
 * bit for bit that of one process with the whole head:
 *
 * ```js
 * const {rank, worldSize} = group;
 * const shard = LmHead.shard(weight, {rank, worldSize, format: 'bfloat16'});
 * const {values, indices} = lmHeadTopK(hidden, shard, 50, {group});  // the same hidden in every rank
 * ```
 *
 * With `host` the call returns when the results lie in host memory: one copy and one wait for all of them, where `dataSync`
 * takes both for each. For results that are read at once, such as the next token:
 *
 * ```js
 * const token = lmHeadTopK(hidden, head, 1, {host: true}).indices.dataSync()[0];
 * ```
 *
 * Options make of a product the score that ranks, in this order: `bias` is added; softCap · tanh(score / softCap); times
 * `scale`; `adjust`, penalties and biases of single ids; `mask`, which gives ids that are not allowed -Infinity. `values` and
 * `logSumExp` are of the final scores:
 *
 * ```js
 * const adjust = tokenPenalties(history, {repetition: 1.1, frequency: 0.2});
 * const {indices} = lmHeadTopK(hidden, head, 50, {softCap: 30, scale: 1 / temperature, adjust, mask});
 * ```
 *
 * The order: NaN first, then the larger score, and of equal scores the lower id (-0 equals +0). So the result for k is
 * a prefix of the result for k + 1. A row's values, ids and log-sum-exp depend on neither the other rows nor their number; nor
 * does the log-sum-exp depend on k, or on a cut of the vocabulary at multiples of 64 ids.
 *
 * Not differentiable.
 *
 * @param hidden float32 [..., hiddenSize], of rank 1 or higher.
 * @param head an `LmHead`, or a plain float32 matrix [vocabSize, hiddenSize].
 * @param k integer in [0, vocabSize].
 * @param options `bias` float32 [vocabSize]; `transposeWeight` if the plain matrix is [hiddenSize, vocabSize];
 *     `vocabStart` (default: `head.vocabStart`, or 0), added to the ids, with vocabStart + vocabSize <= 2^31 - 1;
 *     `logSumExp` (default false); `host` (default false), which changes no number; `group`, with which `head`, `bias` and
 *     `vocabStart` are about this rank's shard, and k may exceed it, but not the whole vocabulary (over NCCL only heads of
 *     `LmHead.shard` know that; with others, entries without an id are -Infinity and -1). Every rank has to make the same call,
 *     in the same order as its other calls.
 * @returns `values` float32 [..., k] and `indices` int32 [..., k]; with k = 0, or a leading dimension of 0, both are
 *     empty. With `logSumExp: true` also `logSumExp` float32 [...]: within 1e-5 (relative, or absolute below 1) of the
 *     exact log(sum of exp(score)) of all vocabSize float32 scores of the row, and never less than the best of them. It
 *     is NaN if a score is NaN, otherwise +Infinity if a score is, and -Infinity if all are.
 * @throws Error before anything runs: on a wrong rank, size or dtype, a disposed tensor or head, a k or vocabStart out of
 *     range, an unknown option, or options that do not go with this head. With `group` also when it is closed or fails, and
 *     when its ranks make different calls or hold the same ids.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadTopK(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  k: number,
  options: LmHeadTopKOptions & { logSumExp: true },
): LmHeadTopKLogSumExpResult;
export function lmHeadTopK(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  k: number,
  options?: LmHeadTopKOptions,
): LmHeadTopKResult;
export function lmHeadTopK(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  k: number,
  options: LmHeadTopKOptions = {},
): LmHeadTopKResult {
  return topKOfHead('lmHeadTopK', 'head', hidden, head, k, options);
}

/** `lmHeadTopK` under the name, and the name of its second argument, that an error should tell. Other ops are made of it. */
export function topKOfHead(
  op: string,
  headArgument: string,
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  k: number,
  options: LmHeadTopKOptions,
): LmHeadTopKResult {
  return runInGroup(op, options, makesTensors(hidden, head, options), () => {
    checkOptions(op, options, OPTIONS);
    const { logSumExp = false, host = false } = options;
    const call = resolveCall(op, headArgument, hidden, head, options);
    checkInteger(op, 'k', k, 0, call.exchange === undefined ? call.vocabSize : largestK(head, call.rows));
    checkBoolean(op, 'logSumExp', logSumExp);
    checkBoolean(op, 'host', host);
    return runTopK(op, call, k, logSumExp, host);
  });
}

/** The largest k of a group's call: of the whole vocabulary, where the head knows its size. */
function largestK(head: LmHead | tf.Tensor | tf.TensorLike, rows: number): number {
  return (head instanceof LmHead ? head.wholeVocabSize : undefined) ?? largestShardedK(rows);
}

/** Runs the kernel on arguments that have been checked. Call it within a tidy. */
export function runTopK(
  op: string,
  { leading, rows, inputs, head, vocabStart, vocabSize, exchange }: HeadCall,
  k: number,
  logSumExp: boolean,
  host?: boolean,
): LmHeadTopKResult {
  if (rows === 0 || (k === 0 && !logSumExp)) return emptyResult(leading, k, logSumExp);
  // Written out: a spread after another property costs each call more than a microsecond.
  const { format, groupSize, transposeWeight } = head;
  const ofBinary = format === 'binary' ? vocabSize : 0;
  const attrs: LmHeadTopKAttrs = {
    format,
    k,
    groupSize,
    vocabSize: ofBinary,
    transposeWeight,
    vocabStart,
    logSumExp,
    host,
  };
  if (exchange === undefined) return toResult(runKernel<tf.Tensor[]>(LmHeadTopK, inputs, attrs));
  if ('transport' in exchange) {
    return toResult(topKOverTransport(op, exchange.transport, inputs, attrs, leading, vocabSize));
  }
  attrs.group = exchange.handle;
  return toResult(runKernel<tf.Tensor[]>(LmHeadTopK, inputs, attrs));
}

function toResult([values, indices, logSumExp]: tf.Tensor[]): LmHeadTopKResult {
  return logSumExp === undefined ? { values, indices } : { values, indices, logSumExp };
}

/** The result where no score is asked for. */
function emptyResult(leading: number[], k: number, logSumExp: boolean): LmHeadTopKResult {
  const shape = [...leading, k];
  const best = [tf.tensor([], shape, 'float32'), tf.tensor([], shape, 'int32')];
  return toResult(logSumExp ? [...best, tf.tensor([], leading, 'float32')] : best);
}
