/** What the ops share that ask a head about given or drawn ids. */
import * as tf from '@tensorflow/tfjs-core';
import { runKernel } from '../common/run_kernel';
import { checkNumbers } from '../common/score_options';
import { fail, MAX_VOCAB_END, shapeText, toTensor } from '../common/validate';
import type { ShardPart } from '../group/decoding_group';
import { scoresOverTransport } from '../group/decoding_group';
import type { LmHead } from '../head/lm_head';
import type { LmHeadScoresAttrs } from '../kernel_names';
import { LmHeadScores } from '../kernel_names';
import type { HeadCall, HeadOptions } from './head_call';
import { headAttrs, resolveCall } from './head_call';

/** A call whose arguments have been checked, and this rank's part of it where ranks exchange something. */
export interface DecodingCall extends HeadCall {
  part: ShardPart | undefined;
}

/** `resolveCall`, for ops that do not run over NCCL. Call it within a tidy. */
export function resolveDecodingCall(
  op: string,
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  options: HeadOptions,
): DecodingCall {
  const call = resolveCall(op, 'head', hidden, head, options);
  const { exchange, inputs, leading, vocabSize } = call;
  if (exchange === undefined) return { ...call, part: undefined };
  if (!('transport' in exchange)) {
    const expected = 'be a transport of your own, {rank, worldSize, allGather}, for this op does not run over NCCL yet';
    fail(op, 'group', expected, 'a TensorParallelGroup');
  }
  const { transport } = exchange;
  return { ...call, part: { op, transport, inputs, attrs: headAttrs(call), leading, vocabSize } };
}

/** Ids of the vocabulary, some for each row; they are read to check them. */
export function toIds(
  op: string,
  argument: string,
  value: tf.Tensor | tf.TensorLike,
  place: { leading: readonly number[]; rows: number; wholeVocabSize: number | undefined },
): { ids: tf.Tensor; n: number } {
  const { leading, rows, wholeVocabSize: end = MAX_VOCAB_END } = place;
  const ids = toTensor(op, argument, value, 'int32');
  // Outer dimensions that ids may have.
  const shapes: (readonly number[])[] = [[rows]];
  if (rows === 1) shapes.unshift([]);
  if (leading.length > 1) shapes.push(leading);
  const outer = ids.shape.slice(0, -1);
  if (ids.rank === 0 || !shapes.some((shape) => tf.util.arraysEqual(shape as number[], outer))) {
    const expected = shapes.map((shape) => `[${[...shape, 'n'].join(',')}]`).join(' or ');
    fail(op, argument, `have shape ${expected} (ids for each row)`, `shape ${shapeText(ids.shape)}`);
  }
  const numbers = value instanceof tf.Tensor ? (ids.dataSync() as Int32Array) : value;
  checkNumbers(op, argument, numbers, `be an id in [0, ${end})`, (id) => id >= 0 && id < end && Number.isInteger(id));
  return { ids, n: ids.shape[ids.rank - 1] };
}

/**
 * float32 [..., n]: the scores of n ids a row, with what the options make of them.
 * @param details what ranks tell each other of the call.
 */
export function scoresOfIds(call: DecodingCall, ids: tf.Tensor, n: number, details: readonly number[]): tf.Tensor {
  const { leading, inputs, part } = call;
  if (ids.size === 0) return tf.tensor([], [...leading, n], 'float32');
  if (part !== undefined) return scoresOverTransport(part, ids, n, details);
  const attrs: LmHeadScoresAttrs = headAttrs(call);
  return runKernel<tf.Tensor>(LmHeadScores, { ...inputs, ids }, attrs);
}
