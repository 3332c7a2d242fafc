import * as tf from '@tensorflow/tfjs-core';
import { SEED_WORDS, seedWords } from '../common/noise';
import { checkOptions, fail, shapeText } from '../common/validate';
import { runInGroup } from '../group/shard_exchange';
import type { LmHead } from '../head/lm_head';
import { resolveDecodingCall, toIds } from './decoding_call';
import type { DrawOptions } from './draw';
import { checkSeed, draw, DRAW_OPTIONS, toRowIds, toTemperature } from './draw';

export type LmHeadVerifyOptions = DrawOptions;

export type LmHeadVerifyResult = {
  /** int32 [...]: how many tokens of the draft are kept. */
  accepted: tf.Tensor;
  /** int32 [...]: the token that follows them. */
  next: tf.Tensor;
};

/**
 * The last step of speculative decoding: which tokens of a draft to keep, and the token that follows them. Position i of a
 * sequence is the hidden vector from which draft token i is to be predicted; the last one follows the whole draft.
 *
 * ```js
 * // hidden [sequences, n + 1, hiddenSize], draft [sequences, n]
 * const {accepted, next} = lmHeadVerify(hidden, head, draft, {temperature: 0.8, seed: 42, step: position});
 * ```
 *
 * Each position is sampled as `lmHeadSample` does, position i with step `step + i`; the draft is kept as far as it equals the
 * samples, and the first that differs is `next`. So the text is, token for token, the one that `lmHeadSample` gives without a
 * draft. For a draft that is given as tokens this is rejection sampling (Leviathan et al. 2023, "Fast Inference from
 * Transformers via Speculative Decoding"): a token is kept with its probability p, and replaced by a draw of the others
 * otherwise. At temperature 0 it is greedy verification.
 *
 * Not differentiable.
 *
 * @param hidden float32 [..., n + 1, hiddenSize], of rank 2 or higher.
 * @param head an `LmHead`, or a plain float32 matrix [vocabSize, hiddenSize].
 * @param draft int32 [..., n], or [sequences, n]. Each id lies in the vocabulary: they are read, which waits for a GPU that
 *     has computed them.
 * @param options as those of `lmHeadSample`. What is given a row is given a position there: of shape [..., n + 1], or with as
 *     many rows. Of `rowIds` there is one a sequence, of shape [...] or [sequences] (default: 0, 1, 2, ...); step + n is to lie
 *     below 2^53.
 * @returns `accepted` int32 [...], in [0, n], and `next` int32 [...]: -1 where every score of its position is -Infinity.
 * @throws Error as `lmHeadSample` does, and on a draft of a wrong shape or dtype, or with an id out of range.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function lmHeadVerify(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  draft: tf.Tensor | tf.TensorLike,
  options: LmHeadVerifyOptions,
): LmHeadVerifyResult {
  const op = 'lmHeadVerify';
  return runInGroup(op, options, true, () => {
    checkOptions(op, options, DRAW_OPTIONS);
    const { seed, step = 0 } = options;
    const call = resolveDecodingCall(op, hidden, head, options);
    const { leading, wholeVocabSize } = call;
    const positions = leading[leading.length - 1] ?? 0;
    if (positions === 0) {
      fail(op, 'hidden', 'have shape [...,n+1,hiddenSize]', `shape ${shapeText([...leading, call.head.hiddenSize])}`);
    }
    const sequences = leading.slice(0, -1);
    const count = tf.util.sizeFromShape(sequences);
    const { ids, n } = toIds(op, 'draft', draft, { leading: sequences, rows: count, wholeVocabSize });
    if (n !== positions - 1) {
      const expected = `have ${positions - 1} ids a sequence, one fewer than hidden has positions`;
      fail(op, 'draft', expected, `shape ${shapeText(ids.shape)}`);
    }
    const temperature = toTemperature(op, options.temperature, call);
    checkSeed(op, seed, step, positions);
    const rowIds = rowIdsOfPositions(toRowIds(op, options.rowIds, sequences, count), count, positions);
    const inputs = { temperature, seed: seedsOfPositions(seed, step, count, positions), rowIds };
    const { ids: samples } = draw(call, inputs, seedWords(seed, step), false);
    return compare(samples, tf.reshape(ids, [...sequences, n]), sequences, n);
  });
}

/** int32 [sequences * positions, 4]: each position has a step of its own. */
function seedsOfPositions(seed: number, step: number, sequences: number, positions: number): tf.Tensor {
  const words = new Int32Array(sequences * positions * SEED_WORDS);
  for (let row = 0; row < sequences * positions; row++) {
    words.set(seedWords(seed, step + (row % positions)), row * SEED_WORDS);
  }
  return tf.tensor2d(words, [sequences * positions, SEED_WORDS], 'int32');
}

/** int32 [sequences * positions] of one a sequence. */
function rowIdsOfPositions(rowIds: tf.Tensor | undefined, sequences: number, positions: number): tf.Tensor {
  if (rowIds !== undefined) {
    const column = tf.reshape(rowIds, [sequences, 1]);
    return tf.reshape(tf.tile(column, [1, positions]), [sequences * positions]);
  }
  const numbers = Int32Array.from({ length: sequences * positions }, (_, row) => Math.floor(row / positions));
  return tf.tensor1d(numbers, 'int32');
}

/** How far the draft [..., n] equals the samples [..., n + 1], and the sample behind. Nothing is read. */
function compare(samples: tf.Tensor, draft: tf.Tensor, sequences: number[], n: number): LmHeadVerifyResult {
  if (n === 0 || samples.size === 0) {
    return { accepted: tf.zeros(sequences, 'int32'), next: tf.reshape(samples, sequences) };
  }
  const before = tf.slice(samples, new Array<number>(samples.rank).fill(0), draft.shape);
  const isKept = tf.cumprod(tf.cast(tf.equal(before, draft), 'float32'), draft.rank - 1);
  const accepted = tf.cast(tf.sum(isKept, -1), 'int32');
  const isNext = tf.oneHot(accepted, n + 1, 1, 0, 'int32');
  return { accepted, next: tf.sum(tf.mul(samples, isNext), -1) };
}
