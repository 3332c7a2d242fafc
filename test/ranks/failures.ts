import * as tf from '@tensorflow/tfjs-core';
import type { ShardGroup } from 'tfjs-lm-head';
import { vocabParallelArgmax } from 'tfjs-lm-head';
import type { RankReport } from './report';

const STEPS_BEFORE = 50;

/** The last rank is killed at a step; the others go on until they get an error. */
export function untilDeath(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError((step) => {
    if (rank === worldSize - 1 && step === STEPS_BEFORE) process.kill(process.pid, 'SIGKILL');
    return argmax(group, 1);
  });
}

/** The last rank suddenly brings another number of rows. */
export function unequalCalls(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError((step) => argmax(group, rank === worldSize - 1 && step === STEPS_BEFORE ? 3 : 1));
}

/** The winner is the last id, which the last rank holds. */
function argmax(group: ShardGroup, rows: number): boolean {
  const { rank, worldSize } = group;
  return tf.tidy(() => {
    const logits = tf.fill([rows, 100], rank);
    const tokens = vocabParallelArgmax(logits, { vocabStart: 100 * rank, group }).dataSync();
    return tokens.every((token) => token === 100 * (worldSize - 1));
  });
}

function untilError(call: (step: number) => boolean): Omit<RankReport, 'device'> {
  for (let step = 0; step < 100 * STEPS_BEFORE; step++) {
    const start = Date.now();
    try {
      if (!call(step)) return { right: step, wrong: `step ${step} gave a wrong token, and no error` };
    } catch (error) {
      return { right: step, error: (error as Error).message, waitedMs: Date.now() - start };
    }
  }
  return { wrong: 'there was no error' };
}
