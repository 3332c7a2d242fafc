import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadScoresOptions } from 'tfjs-lm-head';
import { LmHead, lmHeadScores, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { denseHead, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { denseBound, denseScores, finalScores, roundMatrix } from '../reference';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf } from './take';

/** A head of random weights; a binary one has groups of 32. */
function randomHead(format: HeadFormat, vocabSize: number, hiddenSize: number, seed: number): LmHead {
  const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, seed), [vocabSize, hiddenSize]);
  const head =
    format === 'binary' ? LmHead.binarize(weight, { groupSize: 32 }) : LmHead.dense(weight, { dtype: format });
  weight.dispose();
  return head;
}

/** The scores of all ids by `lmHeadTopK`, one array a row, by place. */
function allScores(hidden: tf.Tensor, head: LmHead, options: LmHeadScoresOptions): Float32Array[] {
  return tf.tidy(() => {
    const { values, indices } = lmHeadTopK(hidden, head, head.vocabSize, options);
    const [scores, ids] = [values.dataSync(), indices.dataSync()];
    return Array.from({ length: scores.length / head.vocabSize }, (_, row) => {
      const ofRow = new Float32Array(head.vocabSize);
      for (let i = 0; i < head.vocabSize; i++) {
        const at = row * head.vocabSize + i;
        ofRow[ids[at] - (options.vocabStart ?? 0)] = scores[at];
      }
      return ofRow;
    });
  });
}

/** `n` ids a row in [first, first + size), some of them more than once. */
function someIds(rows: number, n: number, size: number, seed: number, first = 0): Int32Array {
  return Int32Array.from(randomIntegers(rows * n, first, first + size - 1, seed));
}

describeEachBackend('lmHeadScores', (backend) => {
  describe.each(FORMATS)('%s', (format) => {
    it('has the very scores that lmHeadTopK ranks', () => {
      for (const [rows, vocabSize, hiddenSize, n] of [
        [1, 1, 32, 1],
        [1, 300, 96, 300],
        [3, 257, 64, 20],
        [8, 1000, 160, 3],
        [70, 65, 32, 2],
      ]) {
        const head = randomHead(format, vocabSize, hiddenSize, 1);
        const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 2), [rows, hiddenSize]);
        const ids = someIds(rows, n, vocabSize, 3);
        const expected = allScores(hidden, head, {});
        const scores = lmHeadScores(hidden, head, tf.tensor2d(ids, [rows, n], 'int32'));
        expect([scores.shape, scores.dtype]).toEqual([[rows, n], 'float32']);
        const wanted = Array.from(ids, (id, i) => expected[Math.floor(i / n)][id]);
        expect(bitsOf(scores.dataSync())).toEqual(bitsOf(wanted));
        tf.dispose([hidden, scores]);
        head.dispose();
      }
    });

    it('composes all options, for all rows and one a row', () => {
      const [rows, vocabSize, hiddenSize, n, vocabStart] = [4, 130, 64, 9, 1000];
      const head = randomHead(format, vocabSize, hiddenSize, 4);
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 5), [rows, hiddenSize]);
      const ids = someIds(rows, n, vocabSize, 6, vocabStart);
      const words = Math.ceil((vocabStart + vocabSize) / 32);
      const mask = Int32Array.from(randomIntegers(rows * words, -(2 ** 31), 2 ** 31 - 1, 7));
      const bias = randomFloats(rows * vocabSize, 8);
      const ofRows: LmHeadScoresOptions = {
        bias: tf.tensor2d(bias, [rows, vocabSize]),
        softCap: [1, 2, 3, Infinity],
        scale: [0.5, 2, -1, 1],
        adjust: { ids: tf.tensor2d(ids, [rows, n], 'int32'), add: 0.25, repetition: 1.5 },
        mask: tf.tensor2d(mask, [rows, words], 'int32'),
      };
      const ofAll: LmHeadScoresOptions = {
        bias: bias.slice(0, vocabSize),
        softCap: 2,
        scale: 3,
        adjust: { ids: [1005, -1, 1100], add: [1, 2, 3] },
        mask: mask.slice(0, words),
      };
      for (const options of [ofRows, ofAll]) {
        const given = { ...options, vocabStart };
        const expected = allScores(hidden, head, given);
        const scores = lmHeadScores(hidden, head, tf.tensor2d(ids, [rows, n], 'int32'), given);
        const wanted = Array.from(ids, (id, i) => expected[Math.floor(i / n)][id - vocabStart]);
        expect(bitsOf(scores.dataSync())).toEqual(bitsOf(wanted));
        expect(wanted.some((score) => score === -Infinity)).toBe(true);
        scores.dispose();
      }
      hidden.dispose();
      head.dispose();
    });

    it('asks the shard that holds an id', () => {
      const [rows, vocabSize, hiddenSize, n] = [3, 200, 64, 40];
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 9), [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 10), [rows, hiddenSize]);
      const groupSize = format === 'binary' ? 32 : undefined;
      const shardsOf = (worldSize: number) =>
        Array.from({ length: worldSize }, (_, rank) => LmHead.shard(weight, { rank, worldSize, format, groupSize }));
      const ids = tf.tensor2d(someIds(rows, n, vocabSize, 11), [rows, n], 'int32');
      const scale = [1, 2, 3];
      const [whole] = shardsOf(1);
      const expected = bitsOf(tf.tidy(() => lmHeadScores(hidden, whole, ids, { scale }).dataSync()));
      for (const worldSize of [2, 4, 8]) {
        const shards = shardsOf(worldSize); // the last of 8 hold nothing
        const actual = inAllRanks(worldSize, (group) =>
          bitsOf(tf.tidy(() => lmHeadScores(hidden, shards[group.rank], ids, { scale, group }).dataSync())),
        );
        expect(actual.every((bits) => bits.every((word, i) => word === expected[i]))).toBe(true);
        shards.forEach((shard) => shard.dispose());
      }
      tf.dispose([weight, hidden, ids]);
      whole.dispose();
    });

    it('keeps NaN, infinities and zeros', () => {
      const bias = Float32Array.from([NaN, Infinity, -Infinity, 0, 5]);
      const { hidden, head, dispose } = inject(format, [[0, 0, 0, 0, 0]], bias);
      const scores = lmHeadScores(hidden, head, [4, 3, 2, 1, 0, 4]);
      expect(Array.from(scores.dataSync())).toEqual([5, 0, -Infinity, Infinity, NaN, 5]);
      scores.dispose();
      dispose();
    });
  });

  it('is right to the bound of dense scores', () => {
    const [rows, vocabSize, hiddenSize] = [2, 500, 300];
    for (const format of ['float32', 'bfloat16', 'float16'] as const) {
      const [h, w] = [randomFloats(rows * hiddenSize, 12), randomFloats(vocabSize * hiddenSize, 13)];
      const head = denseHead(w, hiddenSize, format);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      const ids = someIds(rows, 50, vocabSize, 14);
      const scores = lmHeadScores(hidden, head, tf.tensor2d(ids, [rows, 50], 'int32'), { softCap: 5 });
      const reference = denseScores(h, roundMatrix(w, format), hiddenSize).map((row) =>
        finalScores(row, { softCap: 5 }),
      );
      scores.dataSync().forEach((score: number, i: number) => {
        const row = reference[Math.floor(i / 50)];
        expect(Math.abs(score - row.scores[ids[i]])).toBeLessThanOrEqual(denseBound(row, ids[i]));
      });
      tf.dispose([hidden, scores]);
      head.dispose();
    }
  });

  it('finds ids far into a vocabulary, in more rows than a batch usually has', () => {
    const [rows, vocabSize] = [1300, 20001];
    const logits = randomIntegers(vocabSize, -99, 99, 15);
    const ids = someIds(rows, 2, vocabSize, 16);
    ids.set([0, 8191, 8192, 8193, 16384, vocabSize - 1, vocabSize - 1, 0]);
    tf.tidy(() => {
      const weight = tf.tensor2d(logits, [vocabSize, 1]);
      const hidden = tf.tensor2d(
        Float32Array.from({ length: rows }, (_, row) => (row % 3) - 1),
        [rows, 1],
      );
      const scores = lmHeadScores(hidden, weight, tf.tensor2d(ids, [rows, 2], 'int32')).dataSync();
      const expected = Float32Array.from(ids, (id, i) => logits[id] * ((Math.floor(i / 2) % 3) - 1));
      expect(scores.every((score: number, i: number) => score === expected[i])).toBe(true);
    });
  });

  it('keeps leading dimensions, and takes ids of as many rows', () => {
    tf.tidy(() => {
      const weight = tf.tensor2d([0, 1, 2, 3], [4, 1]);
      const rank3 = tf.ones([2, 3, 1]);
      const ids = Int32Array.from({ length: 12 }, (_, i) => i % 4);
      for (const shape of [
        [2, 3, 2],
        [6, 2],
      ]) {
        const scores = lmHeadScores(rank3, weight, tf.tensor(ids, shape, 'int32'));
        expect(scores.shape).toEqual([2, 3, 2]);
        expect(Array.from(scores.dataSync())).toEqual(Array.from(ids));
      }
      expect(lmHeadScores([2], weight, [3, 1]).arraySync()).toEqual([6, 2]);
      expect(lmHeadScores([2], weight, [[3, 1]]).arraySync()).toEqual([6, 2]);
      expect(lmHeadScores([[2]], weight, [3, 1]).arraySync()).toEqual([[6, 2]]);
    });
  });

  it('gives empty tensors for no ids and for no rows', () => {
    tf.tidy(() => {
      const weight = tf.ones<tf.Rank.R2>([4, 1]);
      expect(lmHeadScores(tf.ones([2, 1]), weight, tf.zeros([2, 0], 'int32')).shape).toEqual([2, 0]);
      expect(lmHeadScores(tf.ones([0, 1]), weight, tf.zeros([0, 3], 'int32')).shape).toEqual([0, 3]);
    });
  });

  it('gives NaN for ids of another shard where there is no group', () => {
    const weight = tf.tensor2d([0, 1, 2, 3], [4, 1]);
    const shard = LmHead.shard(weight, { rank: 1, worldSize: 2, multipleOf: 4 });
    const scores = lmHeadScores([1], shard, [0, 1, 2, 3]);
    expect(Array.from(scores.dataSync())).toEqual([NaN, NaN, 2, 3]);
    tf.dispose([weight, scores]);
    shard.dispose();
  });

  it('is one kernel for tfjs, and takes a transposed matrix', async () => {
    const weight = tf.tensor2d([0, 1, 2, 3], [1, 4]);
    const hidden = tf.tensor2d([2], [1, 1]);
    const ids = tf.tensor2d([3], [1, 1], 'int32');
    const profile = await tf.profile(() => lmHeadScores(hidden, weight, ids, { transposeWeight: true }));
    expect(profile.kernels.filter(({ name }) => name === 'LmHeadScores')).toHaveLength(1);
    if (backend !== 'composed') expect(profile.kernelNames).toEqual(['LmHeadScores']);
    expect((profile.result as tf.Tensor).arraySync()).toEqual([[6]]);
    tf.dispose([weight, hidden, ids, profile.result]);
  });
});
