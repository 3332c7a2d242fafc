/**
 * Faults that others shipped, as small inputs with the right answer: ties, zeros, NaN, infinities, and numbers that are
 * small, negative or of another type. Each cites the public report; its number is that of the list it comes from. Logits
 * are injected exactly (see `inject`); NaN and infinities come by bias.
 */
import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { binaryHead, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { rankIds, roundToHalf } from '../reference';
import { filled, injected, tokens, topK } from './cases_from_the_field';

describeEachBackend('faults that others shipped: numbers', () => {
  describe.each(FORMATS)('%s', (format) => {
    // https://github.com/pytorch/pytorch/issues/27542
    it('1: the tie order does not depend on k', () => {
      const all = injected(format, [[1, 2, 5, 4, 5]], 5).ids[0];
      expect(all).toEqual([2, 4, 3, 1, 0]);
      for (let k = 1; k < 5; k++) expect(injected(format, [[1, 2, 5, 4, 5]], k).ids[0]).toEqual(all.slice(0, k));
    });

    // https://github.com/pytorch/pytorch/issues/93630
    it('3: of equal maxima the first wins', () => {
      const logits = randomIntegers(1000, -5, 3, 1);
      for (const id of [3, 517, 999]) logits[id] = 4;
      expect(injected(format, [logits], 1).ids[0]).toEqual([3]);
      expect(injected(format, [logits], 3).ids[0]).toEqual([3, 517, 999]);
    });

    // https://github.com/microsoft/onnxruntime/issues/31161
    it('7: a row that is all -inf has id 0 and -inf', () => {
      const { values, ids } = injected(format, [filled(12, 1)], 1, filled(12, -Infinity));
      expect([values, ids]).toEqual([[[-Infinity]], [[0]]]);
    });

    // https://github.com/vllm-project/vllm/pull/50183
    it('9: a row of NaN stays inside the vocabulary, and its neighbour is exact', () => {
      const vocabSize = 40000;
      const { hidden, head, factor, dispose } = inject(format, [
        filled(vocabSize, 0),
        filled(vocabSize, 1, { 31234: 2 }),
      ]);
      const nan = tf.tidy(() => tf.concat([tf.fill([1, head.hiddenSize], NaN), tf.slice(hidden, [1, 0], [1, -1])]));
      const { values, ids } = topK(nan, head, 3);
      expect(ids).toEqual([
        [0, 1, 2],
        [31234, 0, 1],
      ]);
      expect(values).toEqual([
        [NaN, NaN, NaN],
        [2 * factor, factor, factor],
      ]);
      nan.dispose();
      dispose();
    });

    // https://github.com/tensorflow/tensorflow/issues/117287
    it('10: who is in the top k does not depend on where a NaN sits', () => {
      const zeros = filled(4, 0);
      expect(injected(format, [zeros], 3, new Float32Array([NaN, 1, 2, 3])).ids[0]).toEqual([0, 3, 2]);
      expect(injected(format, [zeros], 3, new Float32Array([1, 2, 3, NaN])).ids[0]).toEqual([3, 2, 1]);
    });

    // https://github.com/tensorflow/tensorflow/issues/118647
    it('11: NaN has one rule at every length', () => {
      for (const vocabSize of [...Array.from({ length: 32 }, (_, i) => i + 2), 1000, 1023, 1024, 1025]) {
        const zeros = filled(vocabSize, 0);
        const ascending = Float32Array.from({ length: vocabSize }, (_, id) => id);
        ascending[1] = NaN;
        const expected = vocabSize === 2 ? [1, 0] : [1, vocabSize - 1];
        expect(injected(format, [zeros], 2, ascending).ids[0]).toEqual(expected);
        expect(injected(format, [zeros], 2, filled(vocabSize, NaN)).ids[0]).toEqual([0, 1]);
      }
    });

    // https://github.com/ml-explore/mlx/issues/4274
    it('12: the value is the score of the id that comes with it', () => {
      const { values, ids } = injected(format, [filled(4, 0)], 4, new Float32Array([3, NaN, 1, 5]));
      expect([values[0], ids[0]]).toEqual([
        [NaN, 5, 3, 1],
        [1, 3, 0, 2],
      ]);
    });

    // https://github.com/NVIDIA/raft/issues/1822
    it('13: -inf ids are distinct and come by id, on every path', () => {
      const bias = filled(1000, -Infinity, { 900: 3, 40: 2, 7: 1 });
      for (const k of [1, 3, 8, 32, 33, 300, 1000]) {
        const { ids } = injected(format, [filled(1000, 0)], k, bias);
        expect(ids[0]).toEqual(rankIds(bias, k));
        expect(ids[0].slice(0, 8)).toEqual([900, 40, 7, 0, 1, 2, 3, 4].slice(0, k));
      }
    });

    // https://github.com/kakaobrain/trident/pull/143
    it('17: scores may all be negative', () => {
      const logits = randomIntegers(1000, -9, -2, 2);
      logits[613] = -1;
      const { values, ids } = injected(format, [logits], 1);
      expect([values, ids]).toEqual([[[-1]], [[613]]]);
    });

    // https://github.com/NVIDIA/MatX/issues/169
    it('18: fractions are no integers', () => {
      expect(injected(format, [[0.1, 0.2, 0.3, 0.4, 0]], 1).ids).toEqual([[3]]);
    });
  });

  // https://github.com/signalnine/q27/pull/14
  it('6: zeros of either sign tie across shards', () => {
    const half = 500;
    for (const [first, second] of [
      [-0, 0],
      [0, -0],
    ]) {
      const logits = filled(2 * half, -1, { 3: first, [half + 1]: second });
      expect(tokens(logits, 1, [half, half])).toEqual([[3], [3], [3]]);
    }
  });

  // https://github.com/microsoft/onnxruntime/issues/31161
  it('7: one row of four is all -inf', () => {
    const logits = filled(4 * 12, 0, { 5: 1, 12: 1, 47: 1 }).fill(-Infinity, 24, 36);
    expect(tokens(logits, 4, [5, 7])).toEqual(new Array(3).fill([5, 0, 0, 11]));
  });

  // https://github.com/keras-team/keras/pull/20808
  it('16: denormals are not flushed to zero', () => {
    const logits = new Float32Array([-1, 0, 1.401298464324817e-45]);
    expect(injected('float32', [logits], 3)).toEqual({ values: [[1.401298464324817e-45, 0, -1]], ids: [[2, 1, 0]] });
    expect(tokens(logits, 1, [1, 2])).toEqual([[2], [2], [2]]);
  });

  // https://github.com/intel/auto-round/issues/1908
  it('54: a row of zeros has scale 0 and score 0', () => {
    const [vocabSize, hiddenSize] = [200, 64];
    const weights = randomFloats(vocabSize * hiddenSize, 13);
    const hidden = tf.tensor2d(randomFloats(hiddenSize, 14), [1, hiddenSize]);
    /** The score of every id, disposing the head. */
    const scoresOf = (head: LmHead) => {
      const { values, ids } = topK(hidden, head, head.vocabSize);
      head.dispose();
      return Array.from(ids[0], (_, id) => values[0][ids[0].indexOf(id)] + 0);
    };
    const binarize = () => {
      const weight = tf.tensor2d(weights, [vocabSize, hiddenSize]);
      const head = LmHead.binarize(weight, { groupSize: 32 });
      weight.dispose();
      return head;
    };
    const expected = scoresOf(binarize());
    expected[123] = 0;
    weights.fill(0, 123 * hiddenSize, 124 * hiddenSize);
    expect(scoresOf(binarize())).toEqual(expected);
    const signs = new Int8Array(2 * hiddenSize).fill(1);
    const [zero, other] = scoresOf(
      binaryHead({ vocabSize: 2, hiddenSize, groupSize: 64, signs, scales: new Float32Array([0, 1]) }),
    );
    expect(zero).toBe(0);
    expect(other).not.toBe(0);
    hidden.dispose();
  });

  // https://github.com/google-ai-edge/ai-edge-quantizer/issues/678
  it('56: subnormal float16 scales count', () => {
    const scales = new Float32Array([0, 2 ** -24, 2 ** -15]);
    expect(scales.map((scale) => roundToHalf(scale, 'float16'))).toEqual(scales);
    const head = binaryHead({
      vocabSize: 3,
      hiddenSize: 64,
      groupSize: 64,
      signs: new Int8Array(3 * 64).fill(1),
      scales,
    });
    expect(topK(tf.ones([1, 64]), head, 3)).toEqual({ values: [[2 ** -9, 2 ** -18, 0]], ids: [[2, 1, 0]] });
    head.dispose();
  });

  // https://github.com/tensorflow/tfjs/issues/445
  it('61: an int32 hidden is refused on every backend', () => {
    tf.tidy(() => {
      const call = () => lmHeadTopK(tf.ones([1, 2], 'int32'), [[1, 2]], 1);
      expect(call).toThrow("argument 'hidden' must have dtype float32, but got dtype int32");
    });
  });
});
