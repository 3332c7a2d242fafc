import * as tf from '@tensorflow/tfjs-core';
import type { ShardGroup } from 'tfjs-lm-head';
import { LmHead, vocabParallelArgmax } from 'tfjs-lm-head';
import { random, randomIntegers } from '../cases';
import { bestId } from '../reference';
import { Digest } from './digest';
import type { RankReport } from './report';

const STEPS = Number(process.env['STEPS'] ?? 10000);
const VOCAB_SIZES = [131072, 32001];
const ROWS = [1, 2, 3, 4, 5, 6, 7, 8];
const VARIANTS = 8;

interface Case {
  /** This rank's shard, padded to the size of the first rank's. */
  shard: tf.Tensor2D;
  vocabStart: number;
  vocabSize: number;
  /** The winner of each row. */
  tokens: number[];
}

/** STEPS calls in a row, in which the winner moves between the ranks from step to step. */
export function argmaxSteps(group: ShardGroup): Omit<RankReport, 'device'> {
  const cases = VOCAB_SIZES.flatMap((size) => ROWS.flatMap((rows) => makeCases(size, rows, group)));
  const next = random(99);
  const digest = new Digest();
  const start = Date.now();
  for (let step = 0; step < STEPS; step++) {
    const { shard, vocabStart, vocabSize, tokens } = cases[Math.floor(next() * cases.length)];
    const options = { vocabStart, vocabSize, group, host: step % 2 === 0 };
    const actual = tf.tidy(() => vocabParallelArgmax(shard, options).dataSync());
    digest.add(actual);
    if (String(Array.from(actual)) !== String(tokens)) {
      return {
        right: step,
        wrong: `step ${step}: ${String(Array.from(actual))} instead of ${String(tokens)}`,
        digest: digest.text(),
      };
    }
  }
  return { right: STEPS, digest: digest.text(), ms: Date.now() - start };
}

/** Integers that rows of logits are pieces of, from a place of their own on. */
const POOL = randomIntegers(2 * VOCAB_SIZES[0], -3, 3, 1);

/** Logits full of ties whose largest begin in one rank after the other. */
function makeCases(vocabSize: number, rows: number, { rank, worldSize }: ShardGroup): Case[] {
  const ranges = Array.from({ length: worldSize }, (_, r) => LmHead.shardRange(vocabSize, { rank: r, worldSize }));
  const { begin, end } = ranges[rank];
  const columns = ranges[0].end;
  return Array.from({ length: VARIANTS }, (_, variant) => {
    const next = random(10 * rows + variant);
    const shard = new Float32Array(rows * columns).fill(9); // padding would win
    const tokens: number[] = [];
    for (let row = 0; row < rows; row++) {
      const place = Math.floor(next() * vocabSize);
      const own = POOL.slice(place, place + vocabSize);
      const first = ranges[(variant + row) % worldSize];
      const winner = first.begin + Math.floor(next() * (first.end - first.begin));
      for (let id = winner; id < vocabSize; id += 1 + Math.floor(next() * 20000)) own[id] = 5; // ties in later ranks
      shard.set(own.subarray(begin, end), row * columns);
      tokens.push(bestId(own));
    }
    return { shard: tf.tensor2d(shard, [rows, columns]), vocabStart: begin, vocabSize: end - begin, tokens };
  });
}
