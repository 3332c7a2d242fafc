import * as tf from '@tensorflow/tfjs-core';
import type { ShardGroup } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK, TensorParallelGroup, vocabParallelArgmax } from 'tfjs-lm-head';
import type { RankReport } from './report';

const STEPS_BEFORE = 50;
/** Steps that a rank still begins when it leaves; few enough for a group to let it. */
const STEPS_UNREAD = 30;

/** The last rank is killed at a step; the others go on until they get an error. */
export function untilDeath(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError(group, (step) => {
    if (rank === worldSize - 1 && step === STEPS_BEFORE) process.kill(process.pid, 'SIGKILL');
    return argmax(group, 1);
  });
}

/** The last rank ends as LEAVE says, with steps under way and without closing the group. */
export function untilExit(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  if (rank !== worldSize - 1) return untilError(group, () => argmax(group, 1));
  for (let step = 0; step < STEPS_BEFORE; step++) argmax(group, 1);
  for (let step = 0; step < STEPS_UNREAD; step++) startArgmax(group, 1);
  const leave = process.env['LEAVE'];
  if (leave === 'process.exit') process.exit(7);
  if (leave === 'an error') {
    setImmediate(() => {
      throw new Error('nobody catches this');
    });
  }
  return { right: STEPS_BEFORE, leavesOpen: true };
}

/** An argument of the last rank is wrong. */
export function wrongArgument(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError(group, (step) =>
    argmax(group, 1, rank === worldSize - 1 && step === STEPS_BEFORE ? -1 : undefined),
  );
}

/** An op of the last rank cannot run on a GPU: a row of a binary head has to fit in its shared memory. */
export function tooWide(group: ShardGroup): Omit<RankReport, 'device'> {
  const { rank, worldSize } = group;
  return untilError(group, (step) => {
    if (rank !== worldSize - 1 || step !== STEPS_BEFORE) return argmax(group, 1);
    const hiddenSize = 2 ** 20;
    const head = LmHead.binarize(tf.ones([1, hiddenSize]));
    return lmHeadTopK(tf.ones([1, hiddenSize]), head, 1, { group }).indices.dataSync()[0];
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
function argmax(group: ShardGroup, rows: number, vocabStart?: number): number {
  // An error is the same where the call waits for the ids itself.
  const host = group.rank % 2 === 0;
  return tf.tidy(() => startArgmax(group, rows, vocabStart, host).dataSync()[0]);
}

function startArgmax(group: ShardGroup, rows: number, vocabStart = 100 * group.rank, host = false): tf.Tensor {
  return vocabParallelArgmax(tf.fill([rows, 100], group.rank), { vocabStart, group, host });
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
