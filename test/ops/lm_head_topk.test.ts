import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import {
  AWKWARD_ROWS,
  awkwardRows,
  BINARY_SHAPES,
  binaryHead,
  DENSE_FORMATS,
  DENSE_SHAPES,
  denseHead,
  ksFor,
  randomFloats,
  randomIntegers,
  randomSigns,
} from '../cases';
import { binaryScores, denseScores, rankIds, roundMatrix, topKFault } from '../reference';
import { bitsOf, take } from './take';

describeEachBackend('lmHeadTopK', (backend) => {
  const native = backend === 'tensorflow';
  const denseShapes = DENSE_SHAPES.filter(({ large }) => native || !large);
  const binaryShapes = BINARY_SHAPES.filter(({ large }) => native || !large);

  describe.each(DENSE_FORMATS)('dense %s', (format) => {
    // Products and sums of these integers are exact in every format, so each id must be the reference's, tie for tie.
    it.each(denseShapes)('finds the ids of $rows x $hiddenSize x $vocabSize integers, full of ties', (shape) => {
      const { rows, hiddenSize, vocabSize } = shape;
      const h = randomIntegers(rows * hiddenSize, -3, 3, 1);
      const w = randomIntegers(vocabSize * hiddenSize, -2, 2, 2);
      const b = randomIntegers(vocabSize, -9, 9, 3);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      for (const bias of [undefined, b]) {
        const head = denseHead(w, hiddenSize, format, bias);
        const scores = denseScores(h, w, hiddenSize, bias).map((row) => row.scores);
        const ranked = scores.map((row) => rankIds(row, Math.min(5000, vocabSize)));
        for (const k of bias ? [Math.min(50, vocabSize)] : ksFor(vocabSize)) {
          const { values, ids } = take(lmHeadTopK(hidden, head, k));
          expect(ids).toEqual(ranked.map((row) => row.slice(0, k)));
          expect(values).toEqual(ids.map((row, r) => row.map((id) => scores[r][id] + 0)));
        }
        head.dispose();
      }
      hidden.dispose();
    });

    it('agrees with tf.topk of tf.matMul on integers', () => {
      const [rows, hiddenSize, vocabSize, k] = [8, 64, 700, 60];
      const w = randomIntegers(vocabSize * hiddenSize, -2, 2, 5);
      const head = denseHead(w, hiddenSize, format);
      tf.tidy(() => {
        const hidden = tf.tensor2d(randomIntegers(rows * hiddenSize, -3, 3, 4), [rows, hiddenSize]);
        const expected = tf.topk(tf.matMul(hidden, tf.tensor2d(w, [vocabSize, hiddenSize]), false, true), k);
        const { values, indices } = lmHeadTopK(hidden, head, k);
        expect(indices.arraySync()).toEqual(expected.indices.arraySync());
        expect(values.arraySync()).toEqual(expected.values.arraySync());
      });
      head.dispose();
    });

    it.each(denseShapes)('is close to float64 on $rows x $hiddenSize x $vocabSize random numbers', (shape) => {
      const { rows, hiddenSize, vocabSize } = shape;
      const h = randomFloats(rows * hiddenSize, 6);
      const w = randomFloats(vocabSize * hiddenSize, 7);
      const bias = rows % 2 === 0 ? randomFloats(vocabSize, 8) : undefined;
      const k = Math.min(100, vocabSize);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      const head = denseHead(w, hiddenSize, format, bias);
      const { values, ids } = take(lmHeadTopK(hidden, head, k));
      const reference = denseScores(h, roundMatrix(w, format), hiddenSize, bias);
      expect(reference.map((row, r) => topKFault(values[r], ids[r], row, k))).toEqual(reference.map(() => undefined));
      tf.dispose(hidden);
      head.dispose();
    });

    it('keeps its bound where large terms cancel', () => {
      const hiddenSize = 256;
      const vocabSize = 200;
      const h = randomFloats(hiddenSize, 9).map((x, i) => x * 2 ** ((i % 40) - 20));
      const w = randomFloats(vocabSize * hiddenSize, 10).map((x, i) => x * 2 ** ((i % 23) - 11));
      const head = denseHead(w, hiddenSize, format);
      const hidden = tf.tensor2d(h, [1, hiddenSize]);
      const { values, ids } = take(lmHeadTopK(hidden, head, 200));
      const [reference] = denseScores(h, roundMatrix(w, format), hiddenSize);
      expect(topKFault(values[0], ids[0], reference, 200)).toBeUndefined();
      hidden.dispose();
      head.dispose();
    });

    it('reads a transposed weight', () => {
      const [hiddenSize, vocabSize] = [33, 70];
      const w = randomFloats(vocabSize * hiddenSize, 11);
      tf.tidy(() => {
        const hidden = tf.tensor2d(randomFloats(2 * hiddenSize, 12), [2, hiddenSize]);
        const weight = tf.tensor2d(w, [vocabSize, hiddenSize]);
        const straight = LmHead.dense(weight, { dtype: format });
        const transposed = LmHead.dense(tf.transpose(weight), { dtype: format, transposed: true });
        const expected = take(lmHeadTopK(hidden, straight, 20));
        const actual = take(lmHeadTopK(hidden, transposed, 20));
        expect(actual.ids).toEqual(expected.ids);
        actual.values.flat().forEach((value, i) => expect(value).toBeCloseTo(expected.values.flat()[i], 4));
        straight.dispose();
        transposed.dispose();
      });
    });
  });

  describe('binary', () => {
    it.each(binaryShapes)('has the bits of the reference on $rows x $hiddenSize x $vocabSize', (shape) => {
      const { rows, hiddenSize, vocabSize, groupSize } = shape;
      const signs = randomSigns(vocabSize * hiddenSize, 20);
      const scales = randomFloats((vocabSize * hiddenSize) / groupSize, 21).map((x) => x / 8);
      const weights = { vocabSize, hiddenSize, groupSize, signs, scales };
      const h = randomFloats(rows * hiddenSize, 22);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      const b = randomFloats(vocabSize, 23);
      for (const bias of [undefined, b]) {
        const head = binaryHead(weights, bias);
        const scores = binaryScores(h, weights, bias);
        const ranked = scores.map((row) => rankIds(row, Math.min(5000, vocabSize)));
        for (const k of bias ? [Math.min(50, vocabSize)] : ksFor(vocabSize)) {
          const { values, ids } = take(lmHeadTopK(hidden, head, k));
          expect(ids).toEqual(ranked.map((row) => row.slice(0, k)));
          ids.forEach((row, r) => expect(bitsOf(values[r])).toEqual(bitsOf(row.map((id) => scores[r][id]))));
        }
        head.dispose();
      }
      hidden.dispose();
    });

    it('finds the ids of integers, full of ties', () => {
      const [rows, hiddenSize, vocabSize, groupSize, k] = [6, 128, 600, 32, 300];
      const h = randomIntegers(rows * hiddenSize, -3, 3, 24);
      for (let row = 0; row < rows; row++) h[row * hiddenSize] = 127; // absmax 127 makes q = h and the scale 1
      const signs = randomSigns(vocabSize * hiddenSize, 25);
      const scales = randomIntegers((vocabSize * hiddenSize) / groupSize, 0, 2, 26);
      const weights = signs.reduce((all, sign, i) => {
        all[i] = sign * scales[Math.floor(i / groupSize)];
        return all;
      }, new Float32Array(signs.length));
      const head = binaryHead({ vocabSize, hiddenSize, groupSize, signs, scales });
      tf.tidy(() => {
        const hidden = tf.tensor2d(h, [rows, hiddenSize]);
        const { ids, values } = take(lmHeadTopK(hidden, head, k));
        const scores = denseScores(h, weights, hiddenSize).map((row) => row.scores);
        expect(ids).toEqual(scores.map((row) => rankIds(row, k)));
        expect(values).toEqual(ids.map((row, r) => row.map((id) => scores[r][id] + 0)));
        const expected = tf.topk(tf.matMul(hidden, tf.tensor2d(weights, [vocabSize, hiddenSize]), false, true), k);
        expect(ids).toEqual(expected.indices.arraySync());
      });
      head.dispose();
    });

    // Long integer products with scales of full precision: an implementation that fuses the multiplication and the addition,
    // or sums in another order, ends on other bits.
    it('rounds every product before it adds it', () => {
      const [rows, hiddenSize, vocabSize, groupSize] = [3, 2304, 400, 256];
      const h = randomFloats(rows * hiddenSize, 32).map((x) => 0.75 + x / 4);
      const signs = randomFloats(vocabSize * hiddenSize, 33).reduce(
        (all, x, i) => {
          all[i] = x < -0.8 ? -1 : 1;
          return all;
        },
        new Int8Array(vocabSize * hiddenSize),
      );
      const weights = { vocabSize, hiddenSize, groupSize, signs, scales: randomFloats(9 * vocabSize, 34) };
      const head = binaryHead(weights);
      const hidden = tf.tensor2d(h, [rows, hiddenSize]);
      const { values, ids } = take(lmHeadTopK(hidden, head, vocabSize));
      const scores = binaryScores(h, weights);
      expect(ids).toEqual(scores.map((row) => rankIds(row, vocabSize)));
      ids.forEach((row, r) => expect(bitsOf(values[r])).toEqual(bitsOf(row.map((id) => scores[r][id]))));
      hidden.dispose();
      head.dispose();
    });

    it.each([32, 64, 96, 128, 256, 384, 768])(
      'has the bits of the reference at every number of rows, in groups of %i',
      (groupSize) => {
        const [hiddenSize, vocabSize] = [768, 130];
        const weights = {
          vocabSize,
          hiddenSize,
          groupSize,
          signs: randomSigns(vocabSize * hiddenSize, 70),
          scales: randomFloats((vocabSize * hiddenSize) / groupSize, 71),
        };
        const h = randomFloats(64 * hiddenSize, 72);
        const bias = randomFloats(vocabSize, 73);
        const head = binaryHead(weights, bias);
        const scores = binaryScores(h, weights, bias);
        for (const rows of [1, 2, 3, 8, 9, 16, 17, 33, 64]) {
          const hidden = tf.tensor2d(h.subarray(0, rows * hiddenSize), [rows, hiddenSize]);
          const { values, ids } = take(lmHeadTopK(hidden, head, vocabSize));
          hidden.dispose();
          expect(ids).toEqual(scores.slice(0, rows).map((row) => rankIds(row, vocabSize)));
          ids.forEach((row, r) => expect(bitsOf(values[r])).toEqual(bitsOf(row.map((id) => scores[r][id]))));
        }
        head.dispose();
      },
    );

    it('survives rows that are zero, tiny, huge or not finite, and scales that are zero, subnormal or negative', () => {
      const [hiddenSize, vocabSize, groupSize] = [96, 80, 32];
      const h = awkwardRows(hiddenSize);
      const scales = randomFloats(3 * vocabSize, 31).map((x) => x * 100);
      [0, 2 ** -24, -(2 ** -24), 2 ** -15, -0, 65504, -65504].forEach((scale, id) =>
        scales.fill(scale, 3 * id, 3 * id + 3),
      );
      const weights = { vocabSize, hiddenSize, groupSize, signs: randomSigns(vocabSize * hiddenSize, 30), scales };
      const head = binaryHead(weights);
      const hidden = tf.tensor2d(h, [AWKWARD_ROWS, hiddenSize]);
      const { values, ids } = take(lmHeadTopK(hidden, head, vocabSize));
      const scores = binaryScores(h, weights);
      expect(ids).toEqual(scores.map((row) => rankIds(row, vocabSize)));
      // -0 may stand for 0: a returned zero has either sign
      ids.forEach((row, r) =>
        expect(bitsOf(values[r].map((x) => x + 0))).toEqual(bitsOf(row.map((id) => scores[r][id] + 0))),
      );
      hidden.dispose();
      head.dispose();
    });
  });
});
