/** Scores, ranks and draws over a transport: each rank asks its own shard, and all of them merge the same numbers. */
import * as tf from '@tensorflow/tfjs-core';
import { LogSumExp, STATE_WORDS } from '../common/log_sum_exp';
import { EMPTY_KEY, isBetter, orderKey } from '../common/order';
import { runKernel } from '../common/run_kernel';
import { fail } from '../common/validate';
import type { LmHeadAttrs, LmHeadDrawAttrs, LmHeadRanksAttrs, LmHeadScoresAttrs } from '../kernel_names';
import { LmHeadDraw, LmHeadRanks, LmHeadScores } from '../kernel_names';
import type { Shard } from './shard_exchange';
import { exchange } from './shard_exchange';
import type { ShardTransport } from './shard_group';

type Inputs = Record<string, tf.Tensor | undefined>;

/** A rank's part of a call. */
export interface ShardPart {
  op: string;
  transport: ShardTransport;
  /** As kernels take them, without what is the op's own. */
  inputs: Inputs;
  attrs: LmHeadAttrs;
  leading: number[];
  /** Of the shard; with 0, no kernel runs. */
  vocabSize: number;
}

/**
 * float32 [..., n]: of each score, what the rank says that holds the id; NaN for -1.
 * @param ids int32, n a row: the same in all ranks.
 */
export function scoresOverTransport(part: ShardPart, ids: tf.Tensor, n: number, details: readonly number[]): tf.Tensor {
  const { op, leading } = part;
  const payload = new Int32Array(ids.size);
  if (part.vocabSize > 0) {
    const attrs: LmHeadScoresAttrs = part.attrs;
    const scores = runKernel<tf.Tensor>(LmHeadScores, { ...part.inputs, ids }, attrs);
    floatsOf(payload).set(scores.dataSync());
  }
  const shards = exchangeParts(part, details, payload);
  const scores = new Float32Array(ids.size).fill(NaN);
  ids.dataSync().forEach((id: number, i: number) => {
    if (id === -1) return;
    const owner = shards.find(({ vocabStart, vocabSize }) => id >= vocabStart && id < vocabStart + vocabSize);
    if (owner === undefined) fail(op, 'ids', 'hold ids of the vocabulary', `${id}, which no rank holds`);
    scores[i] = floatsOf(owner.payload)[i];
  });
  return tf.tensor(scores, [...leading, n], 'float32');
}

/** [ranks int32 [..., n], logSumExp float32 [...]]: ranks add up, and so do the sums. */
export function ranksOverTransport(
  part: ShardPart,
  ids: tf.Tensor,
  scores: tf.Tensor,
  n: number,
  details: readonly number[],
): tf.Tensor[] {
  const { leading } = part;
  const rows = tf.util.sizeFromShape(leading);
  const payload = new Int32Array(ids.size + rows * STATE_WORDS);
  if (part.vocabSize > 0) {
    const attrs: LmHeadRanksAttrs = { ...part.attrs, logSumState: true };
    const [own, , states] = runKernel<tf.Tensor[]>(LmHeadRanks, { ...part.inputs, ids, scores }, attrs);
    payload.set(own.dataSync());
    payload.set(states.dataSync(), ids.size);
  }
  const shards = exchangeParts(part, details, payload);
  const ranks = new Int32Array(ids.size);
  for (const shard of shards) ranks.forEach((_, i) => (ranks[i] += shard.payload[i]));
  const logs = mergedSums(shards, rows, (row) => ids.size + row * STATE_WORDS);
  return [tf.tensor(ranks, [...leading, n], 'int32'), tf.tensor(logs, leading, 'float32')];
}

/** Numbers that a rank sends of each row's draw: key of the noisy score, id, bits of the score, state of the sum. */
const DRAW_WORDS = 3 + STATE_WORDS;

/** [ids int32 [...], scores float32 [...], logSumExp float32 [...]] of the best noisy scores of all shards. */
export function drawOverTransport(part: ShardPart, draw: Inputs, details: readonly number[]): tf.Tensor[] {
  const { leading } = part;
  const rows = tf.util.sizeFromShape(leading);
  const payload = new Int32Array(rows * DRAW_WORDS);
  if (part.vocabSize > 0) {
    const attrs: LmHeadDrawAttrs = { ...part.attrs, logSumExp: false, logSumState: true };
    const [noisy, ids, states] = runKernel<tf.Tensor[]>(LmHeadDraw, { ...part.inputs, ...draw }, attrs);
    const scores = runKernel<tf.Tensor>(LmHeadScores, { ...part.inputs, ids }, part.attrs);
    const [noisyData, idData, scoreData, stateData] = [noisy, ids, scores, states].map((tensor) => tensor.dataSync());
    for (let row = 0; row < rows; row++) {
      const at = row * DRAW_WORDS;
      payload[at] = orderKey(noisyData[row]);
      payload[at + 1] = idData[row];
      floatsOf(payload)[at + 2] = scoreData[row];
      payload.set(stateData.subarray(row * STATE_WORDS, (row + 1) * STATE_WORDS), at + 3);
    }
  }
  const shards = exchangeParts(part, details, payload);
  const ids = new Int32Array(rows).fill(-1);
  const scores = new Float32Array(rows).fill(NaN);
  for (let row = 0; row < rows; row++) {
    const at = row * DRAW_WORDS;
    let best = EMPTY_KEY;
    for (const { vocabSize, payload: theirs } of shards) {
      const [key, id] = theirs.subarray(at, at + 2);
      if (vocabSize === 0 || id === -1 || !isBetter(key, id, best, ids[row])) continue;
      best = key;
      ids[row] = id;
      scores[row] = floatsOf(theirs)[at + 2];
    }
  }
  const logs = mergedSums(shards, rows, (row) => row * DRAW_WORDS + 3);
  return [tf.tensor(ids, leading, 'int32'), tf.tensor(scores, leading, 'float32'), tf.tensor(logs, leading, 'float32')];
}

function exchangeParts(part: ShardPart, details: readonly number[], payload: Int32Array): Shard[] {
  const { op, transport, attrs, leading, vocabSize } = part;
  const rows = tf.util.sizeFromShape(leading);
  return exchange(op, transport, { rows, details, vocabStart: attrs.vocabStart, vocabSize }, payload);
}

/** The log-sum-exp of each row over all shards, whose states lie at `stateAt` of what they have sent. */
function mergedSums(shards: readonly Shard[], rows: number, stateAt: (row: number) => number): Float32Array {
  return Float32Array.from({ length: rows }, (_, row) => {
    const sum = new LogSumExp();
    for (const { vocabSize, payload } of shards) {
      if (vocabSize > 0) sum.addStored(payload.subarray(stateAt(row), stateAt(row) + STATE_WORDS));
    }
    return sum.value();
  });
}

/** The same words as floats. */
function floatsOf(words: Int32Array): Float32Array {
  return new Float32Array(words.buffer, words.byteOffset, words.length);
}
