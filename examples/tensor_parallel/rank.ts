/** What each process runs: greedy decoding with a shard of the head, and once more with the whole head alone. */
import './environment';
import * as tf from '@tensorflow/tfjs-node-gpu';
import { type HeadFormat, LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { type Joined, joinGroup } from './join_group';

const VOCAB_SIZE = 32001;
const HIDDEN_SIZE = 128;

export interface RankOptions {
  tokens: number;
  format: HeadFormat;
}

export function runRank(options: RankOptions): void {
  const joined = joinGroup(60000);
  try {
    decodeTwice(joined, options);
  } finally {
    joined.close(); // also after an error: else the other ranks take this one for dead
  }
}

function decodeTwice({ group, name }: Joined, { tokens, format }: RankOptions): void {
  const { rank, worldSize } = group;
  // A program of your own would read its rows [begin, end) alone: see LmHead.shardRange.
  const weight = tf.randomNormal<tf.Rank.R2>([VOCAB_SIZE, HIDDEN_SIZE], 0, 1, 'float32', 1);
  const shard = LmHead.shard(weight, { rank, worldSize, format });
  const whole = format === 'binary' ? LmHead.binarize(weight) : LmHead.dense(weight, { dtype: format });
  weight.dispose();

  const together = decode(tokens, (hidden) => lmHeadTopK(hidden, shard, 1, { group }).indices);
  const alone = decode(tokens, (hidden) => lmHeadTopK(hidden, whole, 1).indices);
  shard.dispose();
  whole.dispose();

  const ids = `ids ${shard.vocabStart} to ${shard.vocabStart + shard.vocabSize - 1}`;
  const held = shard.vocabSize === 0 ? 'no ids' : ids;
  const place = together.findIndex((token, i) => token !== alone[i]);
  const verdict = place < 0 ? 'the same as one process' : `but token ${place} differs from that of one process`;
  console.log(`rank ${rank} of ${worldSize} (${name}, ${held}): ${tokens} tokens, ${verdict}: ${together.join(' ')}`);
  if (place >= 0) process.exitCode = 1;
}

function decode(tokens: number, pick: (hidden: tf.Tensor2D) => tf.Tensor): number[] {
  const ids: number[] = [];
  while (ids.length < tokens) {
    const token = tf.tidy(() => pick(hiddenAfter(ids)).dataSync()[0]);
    ids.push(token);
  }
  return ids;
}

/** Stands for the layers of a model, which every rank computes alike: a hidden vector that depends on the last token. */
function hiddenAfter(ids: number[]): tf.Tensor2D {
  const last = ids.at(-1) ?? 0;
  return tf.tensor2d(
    Float32Array.from({ length: HIDDEN_SIZE }, (_, i) => Math.sin((i + 1) * (last + 1) + ids.length)),
    [1, HIDDEN_SIZE],
  );
}
