/** What the suites of faults that others shipped have in common. */
import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHead } from 'tfjs-lm-head';
import { lmHeadTopK, localArgmaxCandidates, pickFromCandidates, vocabParallelArgmax } from 'tfjs-lm-head';
import { cutShards, inject } from '../cases';
import { take } from './take';

type Result = ReturnType<typeof take>;

export function topK(hidden: tf.Tensor | tf.TensorLike, head: LmHead | tf.Tensor2D, k: number): Result {
  return take(lmHeadTopK(hidden, head, k));
}

/** Top k of injected logits, one array a row; `bias` is shared by the rows. */
export function injected(format: HeadFormat, logits: ArrayLike<number>[], k: number, bias?: Float32Array): Result {
  const { hidden, head, factor, dispose } = inject(format, logits, bias);
  const { values, ids } = topK(hidden, head, k);
  dispose();
  return { values: bias ? values : values.map((row) => row.map((value) => value / factor)), ids };
}

export function filled(length: number, value: number, others: Record<number, number> = {}): Float32Array {
  const array = new Float32Array(length).fill(value);
  for (const [id, other] of Object.entries(others)) array[Number(id)] = other;
  return array;
}

/** The token that argmax finds in one piece, in shards by the op, and in shards by its two halves. */
export function tokens(logits: Float32Array, rows: number, sizes: number[]): number[][] {
  return tf.tidy(() => {
    const shards = cutShards(logits, rows, sizes);
    let vocabStart = 0;
    const candidates = shards.map((shard) => {
      const part = localArgmaxCandidates(shard, { vocabStart });
      vocabStart += shard.shape[1];
      return part;
    });
    const whole = tf.tensor2d(logits, [rows, logits.length / rows]);
    return [
      vocabParallelArgmax(whole),
      vocabParallelArgmax(shards),
      pickFromCandidates(tf.stack(candidates) as tf.Tensor3D),
    ].map((ids) => Array.from(ids.dataSync()));
  });
}
