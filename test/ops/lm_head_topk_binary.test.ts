import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK, lmHeadTopKBinary, quantizeActivations } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { AWKWARD_ROWS, awkwardRows, randomFloats, randomIntegers, randomSigns } from '../cases';
import type { BinaryWeights } from '../reference';
import { packSigns, quantizedScores, rankIds } from '../reference';
import { bitsOf, take } from './take';

function randomWeights(vocabSize: number, hiddenSize: number, groupSize: number): BinaryWeights {
  const signs = randomSigns(vocabSize * hiddenSize, 1);
  return { vocabSize, hiddenSize, groupSize, signs, scales: randomFloats((vocabSize * hiddenSize) / groupSize, 2) };
}

function tensorsOf({ vocabSize, hiddenSize, groupSize, signs, scales }: BinaryWeights) {
  return {
    bits: tf.tensor2d(packSigns(signs), [vocabSize, hiddenSize / 32], 'int32'),
    scales: tf.tensor2d(scales, [vocabSize, hiddenSize / groupSize]),
  };
}

/** `take`, with the bits of the values: NaN and the sign of zero count. */
function takeBits(result: ReturnType<typeof lmHeadTopK>) {
  const { values, ids } = take(result);
  return { values: values.map(bitsOf), ids };
}

describeEachBackend('lmHeadTopKBinary', () => {
  it.each([
    [1, 500, 256, 128],
    [2, 65, 160, 32],
    [9, 130, 384, 96],
    [33, 64, 640, 640],
  ])('returns the bits of lmHeadTopK on %i rows quantized: vocabulary %i, hidden %i, groups of %i', (...sizes) => {
    const [rows, vocabSize, hiddenSize, groupSize] = sizes;
    tf.tidy(() => {
      const { bits, scales } = tensorsOf(randomWeights(vocabSize, hiddenSize, groupSize));
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 3), [rows, hiddenSize]);
      const { q, scale } = quantizeActivations(hidden);
      for (const bias of [undefined, tf.tensor1d(randomFloats(vocabSize, 4))]) {
        const head = LmHead.binary({ bits, scales, groupSize, bias });
        const expected = takeBits(lmHeadTopK(hidden, head, vocabSize));
        const options = { bias, groupSize, k: vocabSize };
        expect(takeBits(lmHeadTopKBinary(q, scale, bits, scales, options))).toEqual(expected);
        head.dispose();
      }
    });
  });

  it('returns them on rows that are zero, tiny, huge or not finite', () => {
    const [vocabSize, hiddenSize, groupSize] = [70, 96, 32];
    tf.tidy(() => {
      const { bits, scales } = tensorsOf(randomWeights(vocabSize, hiddenSize, groupSize));
      const hidden = tf.tensor2d(awkwardRows(hiddenSize), [AWKWARD_ROWS, hiddenSize]);
      const { q, scale } = quantizeActivations(hidden);
      const head = LmHead.binary({ bits, scales, groupSize });
      const expected = takeBits(lmHeadTopK(hidden, head, vocabSize));
      expect(takeBits(lmHeadTopKBinary(q, scale, bits, scales, { groupSize, k: vocabSize }))).toEqual(expected);
      head.dispose();
    });
  });

  it('takes any whole numbers and any scale: negative, huge, zero, infinite, NaN', () => {
    const weights = randomWeights(130, 384, 128);
    const q = Int32Array.from(randomIntegers(7 * 384, -127, 127, 5));
    q.fill(127, 384, 2 * 384);
    const scale = new Float32Array([1, -0.75, 3e38, 1e-45, 0, -Infinity, NaN]);
    const expected = quantizedScores({ q, scale }, weights);
    tf.tidy(() => {
      const { bits, scales } = tensorsOf(weights);
      const result = lmHeadTopKBinary(tf.tensor2d(q, [7, 384], 'int32'), scale, bits, scales, { k: 130 });
      const { values, ids } = take(result);
      expect(ids).toEqual(expected.map((row) => rankIds(row, 130)));
      ids.forEach((row, r) =>
        expect(bitsOf(values[r].map((x) => x + 0))).toEqual(bitsOf(row.map((id) => expected[r][id] + 0))),
      );
    });
  });

  it.each([1, 9, 33])('keeps every digit of the largest sums of the largest groups: %i rows', (rows) => {
    const [vocabSize, hiddenSize, groupSize] = [3, 65536, 32768];
    const weights = randomWeights(vocabSize, hiddenSize, groupSize);
    weights.signs.fill(1, 0, hiddenSize);
    weights.signs.fill(-1, hiddenSize, 2 * hiddenSize);
    const q = new Int32Array(rows * hiddenSize).fill(127);
    q.fill(-127, (rows - 1) * hiddenSize);
    const expected = quantizedScores({ q, scale: new Float32Array(rows).fill(1) }, weights);
    tf.tidy(() => {
      const { bits, scales } = tensorsOf(weights);
      const options = { groupSize, k: vocabSize };
      const result = lmHeadTopKBinary(
        tf.tensor2d(q, [rows, hiddenSize], 'int32'),
        tf.ones([rows]),
        bits,
        scales,
        options,
      );
      const { values, ids } = take(result);
      ids.forEach((row, r) => expect(bitsOf(values[r])).toEqual(bitsOf(row.map((id) => expected[r][id]))));
      expect(ids).toEqual(expected.map((row) => rankIds(row, vocabSize)));
    });
  });

  it('has groups of 128 and a k of 50 unless told, and keeps leading dimensions', () => {
    tf.tidy(() => {
      const { bits, scales } = tensorsOf(randomWeights(60, 256, 128));
      const q = tf.ones([2, 3, 256], 'int32');
      const { values, indices } = lmHeadTopKBinary(q, tf.ones([2, 3]), bits, scales);
      expect([values.shape, indices.shape]).toEqual([
        [2, 3, 50],
        [2, 3, 50],
      ]);
      const one = lmHeadTopKBinary(new Int32Array(256).fill(1), 1, bits, scales, { k: 2 });
      expect(one.indices.arraySync()).toEqual((indices.arraySync() as number[][][])[1][2].slice(0, 2));
    });
  });

  it('answers no rows, and a k of 0, with empty tensors', () => {
    tf.tidy(() => {
      const { bits, scales } = tensorsOf(randomWeights(60, 128, 128));
      const none = lmHeadTopKBinary(tf.zeros([0, 128], 'int32'), tf.zeros([0]), bits, scales, { k: 3 });
      expect([none.values.shape, none.indices.shape]).toEqual([
        [0, 3],
        [0, 3],
      ]);
      const zero = lmHeadTopKBinary(tf.zeros([2, 128], 'int32'), tf.zeros([2]), bits, scales, { k: 0 });
      expect([zero.values.shape, zero.indices.shape]).toEqual([
        [2, 0],
        [2, 0],
      ]);
    });
  });

  it('takes numbers for tensors', () => {
    const q = [127, ...new Array<number>(31).fill(0)];
    const { values, indices } = lmHeadTopKBinary([q], [0.5], [[0], [1]], [[2], [3]], {
      groupSize: 32,
      k: 2,
      bias: [0, 1],
    });
    expect(indices.arraySync()).toEqual([[1, 0]]);
    expect(values.arraySync()).toEqual([[0.5 * 3 * 127 + 1, -127]]);
    tf.dispose([values, indices]);
  });
});
