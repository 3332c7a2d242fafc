import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadLogProbsOptions, LmHeadLogProbsResult } from 'tfjs-lm-head';
import { LmHead, lmHeadLogProbs, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { binaryHead, denseHead, FORMATS, inject, randomFloats, randomIntegers, randomSigns } from '../cases';
import type { RowOptions, Scores } from '../reference';
import { binaryScores, compareScores, denseScores, finalScores, logSumExp, roundMatrix } from '../reference';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf } from './take';

/** The numbers of a result, which is disposed. */
function read({ logProbs, ranks, logSumExp: sums }: LmHeadLogProbsResult) {
  const numbers = {
    logProbs: bitsOf(logProbs.dataSync()),
    ranks: [...ranks.dataSync()],
    sums: bitsOf(sums.dataSync()),
  };
  tf.dispose([logProbs, ranks, sums]);
  return numbers;
}

/** How many ids come before `id`. */
function rankOf(scores: ArrayLike<number>, id: number): number {
  let rank = 0;
  for (let other = 0; other < scores.length; other++) {
    const order = compareScores(scores[other], scores[id]);
    if (order < 0 || (order === 0 && other < id)) rank++;
  }
  return rank;
}

function someIds(rows: number, n: number, vocabSize: number, seed: number): tf.Tensor2D {
  return tf.tensor2d(Int32Array.from(randomIntegers(rows * n, 0, vocabSize - 1, seed)), [rows, n], 'int32');
}

describeEachBackend('lmHeadLogProbs', (backend) => {
  const native = backend === 'tensorflow';

  describe.each(FORMATS)('%s', (format) => {
    /** A head of random weights with the float64 scores of each row of `h`. */
    function headWithScores(h: Float32Array, vocabSize: number, hiddenSize: number, seed: number) {
      const w = randomFloats(vocabSize * hiddenSize, seed);
      if (format !== 'binary') {
        return { head: denseHead(w, hiddenSize, format), rows: denseScores(h, roundMatrix(w, format), hiddenSize) };
      }
      const scales = randomFloats((vocabSize * hiddenSize) / 32, seed).map(Math.abs);
      const weights = { vocabSize, hiddenSize, groupSize: 32, signs: randomSigns(w.length, seed), scales };
      const rows = binaryScores(h, weights).map((scores): Scores => ({
        scores: Float64Array.from(scores),
        magnitudes: new Float64Array(vocabSize),
      }));
      return { head: binaryHead(weights), rows };
    }

    function expectRight(
      hidden: tf.Tensor,
      head: LmHead,
      ids: tf.Tensor2D,
      options: LmHeadLogProbsOptions,
      rows: Scores[],
    ): void {
      const result = lmHeadLogProbs(hidden, head, ids, options);
      const [logProbs, sums] = [result.logProbs.dataSync(), result.logSumExp.dataSync()];
      const n = ids.shape[1];
      rows.forEach(({ scores }, row) => {
        const exact = logSumExp(scores);
        expect(Math.abs(sums[row] - exact)).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(exact)));
      });
      const worst = Array.from(ids.dataSync(), (id, i) => {
        const { scores } = rows[Math.floor(i / n)];
        if (scores[id] === -Infinity) return logProbs[i] === -Infinity ? 0 : Infinity;
        const exact = scores[id] - logSumExp(scores);
        return Math.abs(logProbs[i] - exact) / Math.max(1, Math.abs(exact));
      });
      expect(Math.max(...worst)).toBeLessThanOrEqual(1e-5);
      tf.dispose([result.logProbs, result.ranks, result.logSumExp]);
    }

    it('is within 1e-5 of float64, with and without options', () => {
      for (const [rows, vocabSize, hiddenSize, n] of native
        ? [[3, 32001, 256, 50]]
        : [
            [1, 1, 32, 1],
            [5, 700, 64, 33],
          ]) {
        const h = randomFloats(rows * hiddenSize, 1);
        const hidden = tf.tensor2d(h, [rows, hiddenSize]);
        const { head, rows: scores } = headWithScores(h, vocabSize, hiddenSize, 2);
        const ids = someIds(rows, n, vocabSize, 3);
        expectRight(hidden, head, ids, {}, scores);
        const bias = randomFloats(vocabSize, 4);
        const mask = Int32Array.from(randomIntegers(Math.ceil(vocabSize / 32), -(2 ** 31), 2 ** 31 - 1, 5));
        mask[0] |= 1; // id 0 is allowed
        const adjust = {
          ids: [...ids.dataSync().slice(0, n)],
          add: randomFloats(n, 6),
          repetition: new Float32Array(n).fill(1.25),
        };
        const options: RowOptions = { bias, softCap: 3, scale: 1.5, adjust, mask };
        const expected = scores.map((row) => finalScores(row, options));
        expectRight(hidden, head, ids, { bias, softCap: 3, scale: 1.5, adjust, mask }, expected);
        tf.dispose([hidden, ids]);
        head.dispose();
      }
    });

    it('ranks whole-number logits exactly, in any order, and repeated ids', () => {
      const vocabSize = native ? 32001 : 1001;
      const logits = [randomIntegers(vocabSize, -20, 20, 7), randomIntegers(vocabSize, -1, 1, 8)];
      const { hidden, head, dispose } = inject(format, logits);
      const ids = someIds(2, 200, vocabSize, 9);
      const { ranks } = read(lmHeadLogProbs(hidden, head, ids));
      const expected = Array.from(ids.dataSync(), (id, i) => rankOf(logits[Math.floor(i / 200)], id));
      expect(ranks).toEqual(expected);
      ids.dispose();
      dispose();
    });

    it('ranks the ids of lmHeadTopK by their places', () => {
      const [rows, vocabSize, hiddenSize] = [3, 300, 96];
      const h = randomFloats(rows * hiddenSize, 10);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      const { head } = headWithScores(h, vocabSize, hiddenSize, 11);
      const options = { softCap: [1, 2, 3], adjust: { ids: [5, 6, 7], add: 2 } };
      const { values, indices } = lmHeadTopK(hidden, head, vocabSize, options);
      const { ranks } = read(lmHeadLogProbs(hidden, head, indices, options));
      expect(ranks).toEqual(Array.from(ranks, (_, i) => i % vocabSize));
      tf.dispose([hidden, values, indices]);
      head.dispose();
    });

    it('ranks NaN first, zeros alike, and masked ids last', () => {
      const bias = Float32Array.from([0, NaN, Infinity, -0, -Infinity, 3, NaN]);
      const { hidden, head, dispose } = inject(format, [new Float32Array(7)], bias);
      const ids = [[0, 1, 2, 3, 4, 5, 6]];
      const all = read(lmHeadLogProbs(hidden, head, ids));
      expect(all.ranks).toEqual([4, 0, 2, 5, 6, 3, 1]);
      const { logProbs, ranks, logSumExp: sums } = lmHeadLogProbs(hidden, head, ids, { mask: [0b0101000] });
      expect(Array.from(ranks.dataSync())).toEqual([2, 3, 4, 1, 5, 0, 6]);
      const exact = Math.log(1 + Math.exp(3));
      expect(sums.dataSync()[0]).toBeCloseTo(exact, 5);
      const probs = Array.from(logProbs.dataSync());
      expect(probs.filter((x) => x === -Infinity)).toHaveLength(5);
      expect(probs[3]).toBeCloseTo(-exact, 5);
      expect(probs[5]).toBeCloseTo(3 - exact, 5);
      tf.dispose([logProbs, ranks, sums]);
      const none = read(lmHeadLogProbs(hidden, head, ids, { mask: [0] }));
      expect(none).toEqual({ logProbs: bitsOf(new Array(7).fill(NaN)), ranks: ids[0], sums: bitsOf([-Infinity]) });
      dispose();
    });

    it('gives every rank the bits of one process', () => {
      const [rows, vocabSize, hiddenSize, n] = [3, 450, 64, 20];
      const weight = tf.tensor2d(randomIntegers(vocabSize * hiddenSize, -2, 2, 12), [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 13), [rows, hiddenSize]);
      const ids = someIds(rows, n, vocabSize, 14);
      const groupSize = format === 'binary' ? 32 : undefined;
      for (const worldSize of [1, 2, 4, 8]) {
        const [whole, ...shards] = [1, ...new Array<number>(worldSize).fill(worldSize)].map((size, i) =>
          LmHead.shard(weight, { rank: Math.max(0, i - 1), worldSize: size, format, groupSize }),
        );
        const options = { softCap: 9, adjust: { ids: [3, 449], repetition: 1.5 } };
        const expected = read(lmHeadLogProbs(hidden, whole, ids, options));
        const actual = inAllRanks(worldSize, (group) =>
          read(lmHeadLogProbs(hidden, shards[group.rank], ids, { ...options, group })),
        );
        actual.forEach((numbers) => expect(numbers).toEqual(expected));
        [whole, ...shards].forEach((head) => head.dispose());
      }
      tf.dispose([weight, hidden, ids]);
    });

    it('has the logSumExp of lmHeadTopK, alone and in a batch', () => {
      const [rows, vocabSize, hiddenSize] = [4, 333, 64];
      const h = randomFloats(rows * hiddenSize, 15);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      const { head } = headWithScores(h, vocabSize, hiddenSize, 16);
      const ids = someIds(rows, 3, vocabSize, 17);
      const top = lmHeadTopK(hidden, head, 0, { logSumExp: true });
      const all = read(lmHeadLogProbs(hidden, head, ids));
      expect(all.sums).toEqual(bitsOf(top.logSumExp.dataSync()));
      for (let row = 0; row < rows; row++) {
        const one = tf.tidy(() =>
          read(lmHeadLogProbs(tf.slice(hidden, [row, 0], [1, hiddenSize]), head, tf.slice(ids, [row, 0], [1, 3]))),
        );
        expect(one.logProbs).toEqual(all.logProbs.slice(3 * row, 3 * row + 3));
        expect(one.ranks).toEqual(all.ranks.slice(3 * row, 3 * row + 3));
        expect(one.sums).toEqual(all.sums.slice(row, row + 1));
      }
      tf.dispose([hidden, ids, top.values, top.indices, top.logSumExp]);
      head.dispose();
    });
  });

  it('takes 2048 ids a row, and no ids', () => {
    const { hidden, head, dispose } = inject('float32', [randomIntegers(3000, -50, 50, 18)]);
    const ids = tf.tensor1d(
      Int32Array.from({ length: 2048 }, (_, i) => 2999 - i),
      'int32',
    );
    const logits = head.tensors.weight.dataSync().filter((_, i) => i % 3 === 0);
    const { ranks } = read(lmHeadLogProbs(hidden, head, ids));
    expect(ranks).toEqual(Array.from(ids.dataSync(), (id) => rankOf(logits, id)));
    const none = lmHeadLogProbs(hidden, head, tf.zeros([1, 0], 'int32'));
    expect([none.logProbs.shape, none.ranks.shape, none.logSumExp.shape]).toEqual([[1, 0], [1, 0], [1]]);
    expect(none.logSumExp.dataSync()[0]).toBeCloseTo(logSumExp(logits), 4);
    tf.dispose([ids, none.logProbs, none.ranks, none.logSumExp]);
    dispose();
  });

  it('keeps leading dimensions, and gives empty tensors for no rows', () => {
    tf.tidy(() => {
      const weight = tf.tensor2d([0, 1, 2, 3], [4, 1]);
      const shapes = (result: LmHeadLogProbsResult) => [
        [result.logProbs.shape, result.logProbs.dtype],
        [result.ranks.shape, result.ranks.dtype],
        [result.logSumExp.shape, result.logSumExp.dtype],
      ];
      const result = lmHeadLogProbs(tf.ones([2, 3, 1]), weight, tf.ones([2, 3, 5], 'int32'));
      expect(shapes(result)).toEqual([
        [[2, 3, 5], 'float32'],
        [[2, 3, 5], 'int32'],
        [[2, 3], 'float32'],
      ]);
      expect(new Set(result.ranks.dataSync())).toEqual(new Set([2]));
      const one = lmHeadLogProbs([1], weight, [3, 0]);
      expect([one.ranks.arraySync(), one.logSumExp.shape]).toEqual([[0, 3], []]);
      const none = lmHeadLogProbs(tf.zeros([0, 1]), weight, tf.zeros([0, 2], 'int32'));
      expect(shapes(none).map(([shape]) => shape)).toEqual([[0, 2], [0, 2], [0]]);
    });
  });
});
