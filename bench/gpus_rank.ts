/**
 * One rank of `npm run bench:gpus`, or with WORLD_SIZE 1 the whole on one GPU. Prints a `StepTime` a line. Every rank makes
 * the same number of calls, for they wait for each other.
 */
import * as tf from '@tensorflow/tfjs-node-gpu';
import { LmHead, lmHeadTopK, TensorParallelGroup, vocabParallelArgmax } from '../src/index';
import { usesGpu } from '../src/native/uses_gpu';
import type { Measure, Row } from './results';
import { batch, makeHidden, makeWeight, median, microseconds } from './timing';
import { STEP_TRIALS, type StepOp } from './trials';

export interface StepTime {
  op: StepOp;
  measure: Measure;
  /** Median, in microseconds. */
  us: Row['us'];
  /** What the call gave: the same in all ranks, and on one GPU. */
  token: number;
}

const WARM_UP_CALLS = 20;
const BATCHES = 20;
const CALLS_A_BATCH = 50;
const READS = 200;

function main(): void {
  if (!usesGpu()) throw new Error('tfjs computes on the CPU here: TensorFlow has found no GPU it can use');
  const group = TensorParallelGroup.fromEnv();
  const { rank, worldSize } = group;
  try {
    const { vocab } = STEP_TRIALS.vocab_parallel_step;
    const slice = LmHead.shardRange(vocab, { rank, worldSize });
    const columns = makeWeight({ vocab: slice.end - slice.begin, hidden: 1 }, slice.begin);
    const logits = columns.reshape([1, slice.end - slice.begin]);
    measure('vocab_parallel_step', () => vocabParallelArgmax(logits, { vocabStart: slice.begin, group }));
    tf.dispose([columns, logits]);

    const trial = STEP_TRIALS.decode_step;
    const { begin, end } = LmHead.shardRange(trial.vocab, { rank, worldSize });
    const weight = makeWeight({ vocab: end - begin, hidden: trial.hidden }, begin);
    const head = LmHead.dense(weight, { dtype: 'bfloat16' });
    weight.dispose();
    const hidden = makeHidden(trial);
    measure('decode_step', () => lmHeadTopK(hidden, head, trial.k, { vocabStart: begin, group }).indices);
    head.dispose();
  } finally {
    group.close();
  }
}

function measure(op: StepOp, call: () => tf.Tensor): void {
  const read = (result: tf.Tensor) => result.dataSync()[0];
  let token = -1;
  for (let i = 0; i < WARM_UP_CALLS; i++) token = tf.tidy(() => read(call()));
  const emit = (kind: Measure, us: number) => {
    console.log(JSON.stringify({ op, measure: kind, us, token } satisfies StepTime));
  };
  const batches = Array.from({ length: BATCHES }, () => batch(call, read, CALLS_A_BATCH));
  emit('host', median(batches.map(({ host }) => host)));
  emit('stream', median(batches.map(({ stream }) => stream)));
  const reads = Array.from({ length: READS }, () => microseconds(() => tf.tidy(() => void read(call()))));
  emit('dataSync', median(reads));
}

main();
