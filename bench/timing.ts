/** How calls of tfjs ops are timed, and the data they are timed with. */
import type * as tfjs from '@tensorflow/tfjs-core';
import * as tf from '@tensorflow/tfjs-node-gpu';
import type { Shape } from './trials';

/** Time of a call in microseconds, without reading and until the last result is there: the means over a batch of calls. */
export interface Batch {
  host: number;
  stream: number;
}

/** The results of `call` live until the surrounding tidy ends. */
export function batch<T>(call: () => T, read: (result: T) => void, count: number): Batch {
  const start = process.hrtime.bigint();
  for (let i = 1; i < count; i++) tf.tidy(() => void call());
  let host = 0;
  tf.tidy(() => {
    const last = call();
    host = Number(process.hrtime.bigint() - start);
    read(last);
  });
  const stream = Number(process.hrtime.bigint() - start);
  return { host: host / count / 1000, stream: stream / count / 1000 };
}

export function microseconds(run: () => void): number {
  const start = process.hrtime.bigint();
  run();
  return Number(process.hrtime.bigint() - start) / 1000;
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * float32 [vocab, hidden], the rows from `first` on of a larger one, made on the device: tf.randomNormal makes its numbers
 * one by one in JavaScript.
 */
export function makeWeight({ vocab, hidden }: Shape, first = 0): tfjs.Tensor2D {
  return tf.tidy(() => {
    const spread = (count: number, start: number, step: number, size: number) =>
      tf.tensor1d(Float32Array.from({ length: count }, (_, i) => 1 + size * (((start + i) * step) % 1)));
    const rows = spread(vocab, first, 0.6180339887, 1000).reshape([vocab, 1]);
    const columns = spread(hidden, 0, 0.7548776662, 10).reshape([1, hidden]);
    return tf.sin(tf.mul(rows, columns)) as tfjs.Tensor2D;
  });
}

export function makeHidden({ rows, hidden }: { rows: number; hidden: number }): tfjs.Tensor2D {
  return tf.randomNormal([rows, hidden], 0, 1, 'float32', 1);
}
