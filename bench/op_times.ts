/**
 * Times lmHeadTopK as a tfjs user calls it, beside tf.topk(tf.matMul(...)). A program of its own, because TensorFlow reads
 * its environment once: its standard input is an `OpRequest`, it prints an `OpTime` a line.
 */
import { text } from 'node:stream/consumers';
import * as tf from '@tensorflow/tfjs-node-gpu';
import { LmHead, lmHeadTopK } from '../src/index';
import type { HeadFormat } from '../src/kernel_names';
import { usesGpu } from '../src/native/uses_gpu';
import type { Measure } from './results';
import { sameShape } from './results';
import { type Batch, batch, makeHidden, makeWeight, median, microseconds } from './timing';
import type { Shape, Trial } from './trials';
import { TINY } from './trials';

export interface OpRequest {
  trials: Trial[];
  gpu: boolean;
  /** Time tfjs's own ops alone. */
  onlyTfjs: boolean;
}

export interface OpTime {
  trial: Trial;
  measure: Measure;
  /** Median, in microseconds; missing with `onlyTfjs`. */
  us?: number;
  /** The same of tf.topk(tf.matMul(...)). */
  tfjs?: number;
  /** Host time of tf.neg, beside that of a tiny head: what any call costs. */
  tfjsNeg?: number;
}

/** A call of the op whose results live until the surrounding tidy ends. */
type Call = () => { values: tf.Tensor; indices: tf.Tensor };

const MIN_ROUNDS = 20;
const WARM_UP_ROUNDS = 3;
/** No round starts after this, once there were MIN_ROUNDS. */
const ROUNDS_SECONDS = 1;
/** Results of weights up to this size are checked before they are timed: a check needs several times their memory. */
const CHECKED_ELEMENTS = 1 << 26;

async function main(): Promise<void> {
  const request = JSON.parse(await text(process.stdin)) as OpRequest;
  await tf.ready();
  if (request.gpu && !usesGpu())
    throw new Error('tfjs computes on the CPU here: TensorFlow has found no GPU it can use');

  if (!request.onlyTfjs) emit(firstCall());
  const shapes = request.trials.filter((trial, i, all) => all.findIndex((other) => sameShape(trial, other)) === i);
  for (const shape of shapes) {
    const trials = request.trials.filter((trial) => sameShape(trial, shape));
    try {
      measureShape(shape, trials, request);
    } catch (error) {
      // Most likely too large for this machine; the other shapes may fit.
      console.error(`V = ${shape.vocab}, H = ${shape.hidden}: ${(error as Error).message}`);
      process.exitCode = 1;
    }
  }
}

function emit(time: OpTime): void {
  console.log(JSON.stringify(time));
}

/** The first lmHeadTopK of this process, which also loads the op library; tfjs itself has computed before. */
function firstCall(): OpTime {
  const trial: Trial = { format: 'float32', rows: 1, ...TINY, k: 50 };
  const us = tf.tidy(() => {
    const [weight, hidden] = [makeWeight(trial), makeHidden(trial)];
    stock(hidden, weight, trial.k)().values.dataSync();
    return microseconds(() => read(lmHeadTopK(hidden, weight, trial.k)));
  });
  return { trial, measure: 'first', us };
}

function measureShape(shape: Shape, trials: Trial[], request: OpRequest): void {
  const weight = makeWeight(shape);
  const heads = new Map<HeadFormat, LmHead>();
  try {
    for (const { format } of trials) {
      if (!request.onlyTfjs && !heads.has(format)) heads.set(format, makeHead(weight, format));
    }
    for (const rows of new Set(trials.map((trial) => trial.rows))) {
      const same = trials.filter((trial) => trial.rows === rows);
      measureRows(same, weight, heads, request);
    }
  } finally {
    for (const head of heads.values()) head.dispose();
    weight.dispose();
  }
}

/** Measures trials that differ in their format alone. */
function measureRows(
  trials: Trial[],
  weight: tf.Tensor2D,
  heads: Map<HeadFormat, LmHead>,
  { gpu, onlyTfjs }: OpRequest,
): void {
  const { k } = trials[0];
  const hidden = makeHidden(trials[0]);
  const fused = onlyTfjs
    ? []
    : trials.map(({ format }) => {
        const head = heads.get(format) as LmHead;
        const [call, atHome] = [false, true].map(
          (host): Call =>
            () =>
              lmHeadTopK(hidden, head, k, { host }),
        );
        if (weight.size <= CHECKED_ELEMENTS) {
          for (const checked of [call, atHome]) check(checked, hidden, weight, format, k);
        }
        return { call, atHome };
      });
  const calls = [stock(hidden, weight, k), ...fused.map(({ call }) => call)];
  const report = (measure: Measure, [tfjs, ...times]: (number | undefined)[], tfjsNeg?: number) => {
    if (onlyTfjs) emit({ trial: trials[0], measure, tfjs });
    else trials.forEach((trial, i) => emit({ trial, measure, us: times[i], tfjs, tfjsNeg }));
  };

  // On the CPU TensorFlow computes within the call, so that only a tiny head shows what a call costs by itself.
  const tiny = sameShape(trials[0], TINY);
  if (gpu || tiny) {
    const batches = calls.map((call) => () => batch(call, read, tiny ? 100 : 20));
    const neg = () =>
      batch(
        () => tf.neg(hidden),
        (result) => void result.dataSync(),
        100,
      );
    const samples = rounds(tiny ? [...batches, neg] : batches);
    const medians = (pick: (sample: Batch) => number) => samples.map((same) => median(same.map(pick)));
    const [hosts, streams] = [medians(({ host }) => host), medians(({ stream }) => stream)];
    report('host', hosts.slice(0, calls.length), tiny ? hosts[calls.length] : undefined);
    if (gpu) report('stream', streams.slice(0, calls.length));
  }
  const atHome = gpu ? fused.map((same) => same.atHome) : []; // on the CPU every result is
  const reads = rounds([...calls, ...atHome].map((call) => () => microseconds(() => tf.tidy(() => read(call())))));
  const times = reads.map(median);
  report('dataSync', times.slice(0, calls.length));
  if (atHome.length > 0) report('sync', [undefined, ...times.slice(calls.length)]);
  hidden.dispose();
}

function stock(hidden: tf.Tensor2D, weight: tf.Tensor2D, k: number): Call {
  return () => tf.topk(tf.matMul(hidden, weight, false, true), k);
}

function read({ values, indices }: { values: tf.Tensor; indices: tf.Tensor }): void {
  values.dataSync();
  indices.dataSync();
}

/** Calls the functions in turn, so that a slow spell of the machine meets all of them; returns each one's results. */
function rounds<T>(functions: (() => T)[]): T[][] {
  for (let i = 0; i < WARM_UP_ROUNDS; i++) for (const run of functions) run();
  const results = functions.map((): T[] => []);
  const end = performance.now() + ROUNDS_SECONDS * 1000;
  for (let i = 0; i < MIN_ROUNDS || (performance.now() < end && i < 10 * MIN_ROUNDS); i++) {
    functions.forEach((run, j) => results[j].push(run()));
  }
  return results;
}

function makeHead(weight: tf.Tensor2D, format: HeadFormat): LmHead {
  return format === 'binary' ? LmHead.binarize(weight) : LmHead.dense(weight, { dtype: format });
}

/** How far a format's best scores may lie from those of float32 weights, relative to the best: a wrong result has no speed. */
const TOLERANCES: Record<HeadFormat, number> = { float32: 1e-3, float16: 3e-3, bfloat16: 2e-2, binary: 3e-2 };

function check(call: Call, hidden: tf.Tensor2D, weight: tf.Tensor2D, format: HeadFormat, k: number): void {
  tf.tidy(() => {
    const expected = stock(hidden, format === 'binary' ? binarized(weight) : weight, k)().values;
    const error = tf.max(tf.abs(tf.sub(call().values, expected)));
    const ratio = tf.div(error, tf.max(tf.abs(expected))).dataSync()[0];
    if (!(ratio <= TOLERANCES[format])) {
      throw new Error(`lmHeadTopK with a ${format} head is wrong: its values are off by ${ratio} of the largest`);
    }
  });
}

/** The numbers that a binary head of `weight` stands for, with scales in float32. */
function binarized(weight: tf.Tensor2D): tf.Tensor2D {
  const [vocab, hidden] = weight.shape;
  const groups = weight.reshape([vocab, hidden / 128, 128]);
  const signs = tf.sub(tf.mul(tf.cast(tf.greaterEqual(groups, 0), 'float32'), 2), 1);
  return tf.mul(signs, tf.mean(tf.abs(groups), 2, true)).reshape([vocab, hidden]);
}

main().catch((error: unknown) => {
  console.error((error as Error).message);
  process.exitCode = 1;
});
