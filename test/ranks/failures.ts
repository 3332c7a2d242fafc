import * as tf from '@tensorflow/tfjs-core';
import type { ShardGroup } from 'tfjs-lm-head';
import { TensorParallelGroup, vocabParallelArgmax } from 'tfjs-lm-head';
import type { RankReport } from './report';

const STEPS_BEFORE = 50;

/** The last rank is killed at a step; the others go on until they get an error. */
export function untilDeath(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError(group, (step) => {
    if (rank === worldSize - 1 && step === STEPS_BEFORE) process.kill(process.pid, 'SIGKILL');
    return argmax(group, 1);
  });
}

/** The last rank suddenly brings another number of rows. */
export function unequalCalls(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError(group, (step) => argmax(group, rank === worldSize - 1 && step === STEPS_BEFORE ? 3 : 1));
}

/** The last rank suddenly claims an id of the one before. */
export function sameIds(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError(group, (step) => {
    const claims = rank === worldSize - 1 && step === STEPS_BEFORE;
    return argmax(group, 1, 100 * rank - Number(claims));
  });
}

/** The winner is the first id of the last rank. */
function argmax(group: ShardGroup, rows: number, vocabStart = 100 * group.rank): number {
  return tf.tidy(() => {
    const logits = tf.fill([rows, 100], group.rank);
    return vocabParallelArgmax(logits, { vocabStart, group }).dataSync()[0];
  });
}

/** Calls until there is an error. The call that fails on a GPU returns -1, and the group knows why; the next one throws. */
function untilError(group: ShardGroup, call: (step: number) => number): Omit<RankReport, 'device'> {
  const expected = 100 * (group.worldSize - 1);
  for (let right = 0; right < 100 * STEPS_BEFORE; right++) {
    const start = Date.now();
    try {
      let token = call(right);
      if (token === -1 && group instanceof TensorParallelGroup && group.error !== undefined) token = call(right);
      if (token !== expected) return { right, wrong: `token ${token} instead of ${expected}, and no error` };
    } catch (error) {
      return { right, error: (error as Error).message, waitedMs: Date.now() - start };
    }
  }
  return { wrong: 'there was no error' };
}
