import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadTopKOptions, ShardGroup } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { FORMATS, randomFloats, randomIntegers } from '../cases';
import { logSumExpFault } from '../reference';
import { Digest } from './digest';
import type { RankReport } from './report';

const HIDDEN_SIZE = 32;
const GROUP_SIZE = 32;

interface Call {
  rows: number;
  k: number;
}

/** k = 9000 is more than a shard of 32,001 ids has from 4 ranks on, and all of 1,000 ids. */
const CALLS: readonly Call[] = [
  { rows: 1, k: 1 },
  { rows: 1, k: 50 },
  { rows: 3, k: 257 },
  { rows: 8, k: 50 },
  { rows: 2, k: 9000 },
];

/** What the group gives, against this process alone with the whole head. */
export function topKBits(group: ShardGroup): Omit<RankReport, 'device'> {
  const digest = new Digest();
  let right = 0;
  for (const vocabSize of [131072, 32001, 1000]) {
    for (const format of FORMATS) {
      const heads = makeHeads(format, vocabSize, group);
      for (const call of CALLS) {
        const fault = tf.tidy(() => check(call, heads, vocabSize, group, digest));
        if (fault !== undefined) {
          const what = `${format}, V = ${vocabSize}, ${call.rows} rows, k = ${call.k}: ${fault}`;
          return { right, wrong: what, digest: digest.text() };
        }
        right++;
      }
      heads.whole.dispose();
      heads.shard.dispose();
    }
  }
  return { right, digest: digest.text() };
}

interface Heads {
  whole: LmHead;
  shard: LmHead;
}

/** Weights full of ties; a binary head gets others, for its scales have to differ. */
function makeHeads(format: HeadFormat, vocabSize: number, { rank, worldSize }: ShardGroup): Heads {
  const size = vocabSize * HIDDEN_SIZE;
  const weights = format === 'binary' ? randomFloats(size, 1) : randomIntegers(size, -2, 2, 2);
  const bias = randomIntegers(vocabSize, -3, 3, 3);
  const weight = tf.tensor2d(weights, [vocabSize, HIDDEN_SIZE]);
  const groupSize = format === 'binary' ? GROUP_SIZE : undefined;
  const whole =
    format === 'binary'
      ? LmHead.binarize(weight, { groupSize: GROUP_SIZE, bias })
      : LmHead.dense(weight, { dtype: format, bias });
  const shard = LmHead.shard(weight, { rank, worldSize, format, groupSize, bias });
  weight.dispose();
  return { whole, shard };
}

function check({ rows, k: most }: Call, { whole, shard }: Heads, vocabSize: number, group: ShardGroup, digest: Digest) {
  const k = Math.min(most, vocabSize);
  const hidden = tf.tensor2d(randomIntegers(rows * HIDDEN_SIZE, -3, 3, 10 * rows + k), [rows, HIDDEN_SIZE]);
  const run = (head: LmHead, options: LmHeadTopKOptions) => {
    const { values, indices, logSumExp } = lmHeadTopK(hidden, head, k, { ...options, logSumExp: true });
    return [values, indices, logSumExp].map((tensor) => tensor.dataSync());
  };
  const [values, ids, sums] = run(shard, { group, host: rows === 1 });
  for (const numbers of [values, ids, sums]) digest.add(numbers);
  const [wholeValues, wholeIds, wholeSums] = run(whole, {});
  const same = (a: ArrayBufferView, b: ArrayBufferView) =>
    Buffer.compare(
      Buffer.from(a.buffer, a.byteOffset, a.byteLength),
      Buffer.from(b.buffer, b.byteOffset, b.byteLength),
    ) === 0;
  if (!same(ids, wholeIds)) return 'other ids than one process';
  if (!same(values, wholeValues)) return 'other values than one process';
  // Cut at multiples of 64, where the last ranks may hold fewer ids or none.
  const slice = LmHead.shardRange(vocabSize, { rank: 0, worldSize: group.worldSize }).end;
  if (slice % 64 === 0 && !same(sums, wholeSums)) return 'another logSumExp than one process';
  if (k !== 50) return undefined; // the next is slow
  const scores = lmHeadTopK(hidden, whole, vocabSize).values.dataSync();
  for (let row = 0; row < rows; row++) {
    const fault = logSumExpFault(sums[row], scores.subarray(row * vocabSize, (row + 1) * vocabSize));
    if (fault !== undefined) return `logSumExp ${fault}`;
  }
  return undefined;
}
