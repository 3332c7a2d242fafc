import * as tf from '@tensorflow/tfjs-core';
import { Best, CANDIDATE_WIDTH } from '../common/candidates';
import type { LocalArgmaxCandidatesAttrs } from '../kernel_names';
import { LocalArgmaxCandidates } from '../kernel_names';
import type { ShardTransport } from './shard_group';
import { runKernel } from '../common/run_kernel';
import { exchange } from './shard_exchange';

/** The winners of all ranks' shards: each rank sends the candidates of its own, 64 bytes a row. */
export function argmaxOverTransport(
  op: string,
  transport: ShardTransport,
  logits: tf.Tensor2D,
  rows: number,
  attrs: LocalArgmaxCandidatesAttrs,
): tf.Tensor1D {
  const { vocabStart, vocabSize } = attrs;
  // A rank without columns has nothing to scan, but the others wait for it.
  const candidates =
    vocabSize === 0
      ? new Int32Array(0)
      : (runKernel<tf.Tensor2D>(LocalArgmaxCandidates, { logits }, attrs).dataSync() as Int32Array);
  const payload = new Int32Array(rows * CANDIDATE_WIDTH);
  payload.set(candidates);
  const call = { rows, details: [1, 0], vocabStart, vocabSize };
  const shards = exchange(op, transport, call, payload).filter((shard) => shard.vocabSize > 0);
  const best = Array.from({ length: rows }, () => new Best());
  for (const { payload: pairs } of shards) {
    best.forEach((rowBest, row) => rowBest.offerRow(pairs, row * CANDIDATE_WIDTH));
  }
  return tf.tensor1d(
    Int32Array.from(best, ({ id }) => id),
    'int32',
  );
}
