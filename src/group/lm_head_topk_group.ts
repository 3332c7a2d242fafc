import * as tf from '@tensorflow/tfjs-core';
import { LogSumExp, STATE_WORDS } from '../common/log_sum_exp';
import { TopK } from '../common/order';
import type { LmHeadTopKAttrs } from '../kernel_names';
import { LmHeadTopK } from '../kernel_names';
import type { ShardTransport } from './shard_group';
import { runKernel } from '../common/run_kernel';
import { exchange } from './shard_exchange';
import { checkInteger } from '../common/validate';

/** Values and ids that a call may send: more would only be memory. */
const MAX_SENT = 2 ** 28;

/** The largest k where a rank cannot know the size of the whole vocabulary before the others have told theirs. */
export function largestShardedK(rows: number): number {
  return Math.floor(MAX_SENT / Math.max(1, rows));
}

/**
 * [values, indices] and with `logSumExp` a third, of all ranks' shards: each rank sends the best k of its own, as float
 * bits, and the state of its log-sum-exp. All of them merge the same numbers.
 */
export function topKOverTransport(
  op: string,
  transport: ShardTransport,
  inputs: Record<string, tf.Tensor | undefined>,
  attrs: LmHeadTopKAttrs,
  leading: number[],
  vocabSize: number,
): tf.Tensor[] {
  const { k, vocabStart, logSumExp } = attrs;
  const rows = tf.util.sizeFromShape(leading);
  const payload = new Int32Array(rows * (2 * k + (logSumExp ? STATE_WORDS : 0)));
  if (vocabSize > 0) {
    const ownK = Math.min(k, vocabSize);
    const own: LmHeadTopKAttrs = { ...attrs, k: ownK, logSumExp: false, logSumState: logSumExp, host: true };
    const best = runKernel<tf.Tensor[]>(LmHeadTopK, inputs, own);
    new Parts(payload, rows, k).set(best.map((tensor) => tensor.dataSync()));
  }
  const shards = exchange(op, transport, { rows, details: [k, Number(logSumExp)], vocabStart, vocabSize }, payload);
  checkInteger(
    op,
    'k',
    k,
    0,
    shards.reduce((sum, shard) => sum + shard.vocabSize, 0),
  );

  const merged = new Parts(new Int32Array(2 * rows * k), rows, k);
  const logs = new Float32Array(logSumExp ? rows : 0);
  const parts = shards.map((shard) => new Parts(shard.payload, rows, k));
  for (let row = 0; row < rows; row++) {
    const heap = new TopK(k);
    const sum = new LogSumExp();
    shards.forEach((shard, rank) => {
      const { values, ids, states } = parts[rank];
      const end = row * k + Math.min(k, shard.vocabSize);
      for (let i = row * k; i < end; i++) heap.offer(ids[i], values[i]);
      if (logSumExp && shard.vocabSize > 0) sum.addStored(states.subarray(row * STATE_WORDS, (row + 1) * STATE_WORDS));
    });
    heap.drain(merged.values, merged.ids, row * k);
    if (logSumExp) logs[row] = sum.value();
  }
  const best = [tf.tensor(merged.values, [...leading, k], 'float32'), tf.tensor(merged.ids, [...leading, k], 'int32')];
  return logSumExp ? [...best, tf.tensor(logs, leading, 'float32')] : best;
}

/** The numbers that a rank sends: float32 [rows, k] values, int32 [rows, k] ids, int32 [rows, STATE_WORDS] or none. */
class Parts {
  readonly values: Float32Array;
  readonly ids: Int32Array;
  readonly states: Int32Array;

  constructor(
    payload: Int32Array,
    private readonly rows: number,
    private readonly k: number,
  ) {
    const floats = new Float32Array(payload.buffer, payload.byteOffset, payload.length);
    this.values = floats.subarray(0, rows * k);
    this.ids = payload.subarray(rows * k, 2 * rows * k);
    this.states = payload.subarray(2 * rows * k);
  }

  /** From outputs of the kernel, whose k may be smaller: the rest of a row stays 0. */
  set([values, ids, states]: ArrayLike<number>[]): void {
    const k = values.length / this.rows;
    for (let row = 0; row < this.rows; row++) {
      for (let j = 0; j < k; j++) {
        this.values[row * this.k + j] = values[row * k + j];
        this.ids[row * this.k + j] = ids[row * k + j];
      }
    }
    if (states !== undefined) this.states.set(states);
  }
}
