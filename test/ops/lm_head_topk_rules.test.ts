import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK, lmHeadTopKDense } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { denseHead, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { rankIds } from '../reference';
import { bitsOf, take } from './take';

describeEachBackend('the rules of lmHeadTopK', (backend) => {
  const native = backend === 'tensorflow';

  describe.each(FORMATS)('%s, any format', (format) => {
    it('returns winners that all lie in one chunk, and in a ragged last one', () => {
      const vocabSize = native ? 32001 : 3001;
      for (const first of [0, 1000, vocabSize - 200]) {
        const logits = randomIntegers(vocabSize, -9, -1, 40);
        for (let i = 0; i < 200; i++) logits[first + i] = 1 + ((i * 37) % 200);
        const injected = inject(format, [logits]);
        const { values, ids } = take(lmHeadTopK(injected.hidden, injected.head, 200));
        expect(ids[0]).toEqual(rankIds(logits, 200));
        expect(values[0]).toEqual(ids[0].map((id) => logits[id] * injected.factor));
        injected.dispose();
      }
    });

    it('ranks NaN, infinities and zeros by the order', () => {
      const vocabSize = 300;
      const bias = new Float32Array(vocabSize);
      const logits = randomIntegers(vocabSize, -2, 2, 41);
      for (const [id, value] of [
        [3, -Infinity],
        [17, NaN],
        [120, Infinity],
        [121, Infinity],
        [200, NaN],
        [299, -Infinity],
      ]) {
        bias[id] = value;
      }
      for (const id of [5, 50, 250]) bias[id] = -0;
      const injected = inject(format, [logits], bias);
      const scores = logits.map((logit, id) => logit * injected.factor + bias[id]);
      const { values, ids } = take(lmHeadTopK(injected.hidden, injected.head, vocabSize));
      expect(ids[0]).toEqual(rankIds(scores, vocabSize));
      expect(ids[0].slice(0, 4)).toEqual([17, 200, 120, 121]);
      expect(ids[0].slice(-2)).toEqual([3, 299]);
      expect(values[0].map((x) => x + 0)).toEqual(ids[0].map((id) => scores[id] + 0));
      injected.dispose();
    });

    it('answers a row that is all -inf, and one that is all NaN, with the lowest ids', () => {
      for (const value of [-Infinity, NaN, Infinity]) {
        const injected = inject(format, [new Float32Array(1000)], new Float32Array(1000).fill(value));
        const { values, ids } = take(lmHeadTopK(injected.hidden, injected.head, 9));
        expect(ids).toEqual([[0, 1, 2, 3, 4, 5, 6, 7, 8]]);
        expect(values).toEqual([new Array(9).fill(value)]);
        injected.dispose();
      }
    });

    it('keeps a row with NaN or infinities away from its neighbours', () => {
      const [rows, hiddenSize, vocabSize] = [9, 128, 500];
      const head =
        format === 'binary'
          ? LmHead.binarize(tf.tensor2d(randomFloats(vocabSize * hiddenSize, 42), [vocabSize, hiddenSize]))
          : denseHead(randomFloats(vocabSize * hiddenSize, 42), hiddenSize, format);
      const h = randomFloats(rows * hiddenSize, 43);
      const clean = take(lmHeadTopK(tf.tensor2d(h, [rows, hiddenSize]), head, 20));
      const dirty = h.slice();
      dirty[2 * hiddenSize + 5] = NaN;
      dirty[5 * hiddenSize + 127] = Infinity;
      dirty[7 * hiddenSize] = -Infinity;
      dirty[7 * hiddenSize + 1] = Infinity;
      const result = take(lmHeadTopK(tf.tensor2d(dirty, [rows, hiddenSize]), head, 20));
      for (const row of [0, 1, 3, 4, 6, 8]) {
        expect(result.ids[row]).toEqual(clean.ids[row]);
        expect(bitsOf(result.values[row])).toEqual(bitsOf(clean.values[row]));
      }
      const lowest = Array.from({ length: 20 }, (_, id) => id);
      expect(result.ids[2]).toEqual(lowest);
      expect(result.values[2].every(Number.isNaN)).toBe(true);
      expect(result.values[5].every((x) => (format === 'binary' ? Number.isNaN(x) : x === Infinity))).toBe(true);
      head.dispose();
    });

    it('gives the same bits at every batch size, at every place, and on every run', () => {
      const [hiddenSize, vocabSize, k] = native ? [1024, 4001, 50] : [96, 300, 50];
      const w = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 44), [vocabSize, hiddenSize]);
      const head = format === 'binary' ? LmHead.binarize(w, { groupSize: 32 }) : LmHead.dense(w, { dtype: format });
      const row = randomFloats(hiddenSize, 45);
      const alone = take(lmHeadTopK(tf.tensor2d(row, [1, hiddenSize]), head, k));
      for (const rows of [1, 2, 8, 33, 64, 129]) {
        const places = [...new Set([0, Math.floor(rows / 2), rows - 1])];
        const h = randomFloats(rows * hiddenSize, 46);
        for (const place of places) h.set(row, place * hiddenSize);
        const batch = take(lmHeadTopK(tf.tensor2d(h, [rows, hiddenSize]), head, k));
        for (const place of places) {
          expect(batch.ids[place]).toEqual(alone.ids[0]);
          expect(bitsOf(batch.values[place])).toEqual(bitsOf(alone.values[0]));
        }
      }
      w.dispose();
      head.dispose();
    });

    it('has scores that do not depend on the vocabulary around them', () => {
      const [hiddenSize, vocabSize] = [160, 1500];
      const w = randomFloats(vocabSize * hiddenSize, 47);
      const make = (first: number, count: number) => {
        const part = tf.tensor2d(w.subarray(first * hiddenSize, (first + count) * hiddenSize), [count, hiddenSize]);
        return format === 'binary' ? LmHead.binarize(part, { groupSize: 32 }) : LmHead.dense(part, { dtype: format });
      };
      const hidden = tf.tensor2d(randomFloats(3 * hiddenSize, 48), [3, hiddenSize]);
      const whole = make(0, vocabSize);
      const { values, ids } = take(lmHeadTopK(hidden, whole, vocabSize));
      for (const [first, count] of [
        [0, 17],
        [700, 300],
        [1499, 1],
      ]) {
        const shard = make(first, count);
        const part = take(lmHeadTopK(hidden, shard, count, { vocabStart: first }));
        part.ids.forEach((partIds, r) => {
          const inWhole = ids[r].filter((id) => id >= first && id < first + count);
          expect(partIds).toEqual(inWhole);
          expect(bitsOf(part.values[r])).toEqual(bitsOf(inWhole.map((id) => values[r][ids[r].indexOf(id)])));
        });
        shard.dispose();
      }
      whole.dispose();
      hidden.dispose();
    });

    it('adds vocabStart to the ids, up to the largest', () => {
      const injected = inject(format, [[1, 3, 2]]);
      for (const vocabStart of [0, 2 ** 24 + 1, 2 ** 31 - 4]) {
        const { ids } = take(lmHeadTopK(injected.hidden, injected.head, 3, { vocabStart }));
        expect(ids).toEqual([[vocabStart + 1, vocabStart + 2, vocabStart]]);
      }
      injected.dispose();
    });

    it('adds a bias that comes with the call', () => {
      const injected = inject(format, [[1, 3, 2]]);
      const bias = tf.tensor1d([1000, 0, 0]);
      const { values, ids } = take(lmHeadTopK(injected.hidden, injected.head, 2, { bias }));
      expect(ids).toEqual([[0, 1]]);
      expect(values).toEqual([[injected.factor + 1000, 3 * injected.factor]]);
      bias.dispose();
      injected.dispose();
    });
  });

  describe('shapes', () => {
    const weight = () => tf.tensor2d([0, 1, 1, 0, 2, 2], [3, 2]);

    it('keeps leading dimensions of any number', () => {
      tf.tidy(() => {
        for (const leading of [[], [1], [4], [2, 3], [2, 1, 3, 2]]) {
          const { values, indices } = lmHeadTopK(tf.ones([...leading, 2]), weight(), 2);
          expect(values.shape).toEqual([...leading, 2]);
          expect(indices.shape).toEqual([...leading, 2]);
          expect([values.dtype, indices.dtype]).toEqual(['float32', 'int32']);
          expect(Array.from(indices.dataSync()).slice(0, 2)).toEqual([2, 0]);
        }
      });
    });

    it('gives empty tensors for k = 0 and for zero rows', () => {
      tf.tidy(() => {
        const shapes = (hidden: tf.Tensor, k: number) => {
          const { values, indices } = lmHeadTopK(hidden, weight(), k);
          expect([values.dtype, indices.dtype]).toEqual(['float32', 'int32']);
          expect(indices.shape).toEqual(values.shape);
          expect(Array.from(values.dataSync())).toEqual([]);
          return values.shape;
        };
        expect(shapes(tf.ones([4, 2]), 0)).toEqual([4, 0]);
        expect(shapes(tf.ones([2]), 0)).toEqual([0]);
        expect(shapes(tf.zeros([0, 2]), 3)).toEqual([0, 3]);
        expect(shapes(tf.zeros([3, 0, 2]), 1)).toEqual([3, 0, 1]);
      });
    });

    it('takes numbers for tensors', () => {
      tf.tidy(() => {
        const result = lmHeadTopK(
          [
            [1, 2],
            [-1, 0],
          ],
          [
            [0, 1],
            [1, 0],
            [2, 2],
          ],
          1,
          { bias: [0, 0, -1] },
        );
        expect(result.indices.arraySync()).toEqual([[2], [0]]);
        expect(result.values.arraySync()).toEqual([[5], [0]]);
        expect(lmHeadTopK(new Float32Array([1, 2]), weight(), 1).indices.arraySync()).toEqual([2]);
      });
    });

    it('takes a matrix [hiddenSize, vocabSize] with transposeWeight', () => {
      tf.tidy(() => {
        const { indices } = lmHeadTopK(
          [1, 2],
          [
            [0, 1, 2],
            [1, 0, 2],
          ],
          3,
          { transposeWeight: true },
        );
        expect(indices.arraySync()).toEqual([2, 0, 1]);
      });
    });

    it('finds ids far into a transposed matrix', () => {
      const vocabSize = 20001;
      const logits = randomIntegers(vocabSize, -99, 99, 51);
      logits[vocabSize - 1] = 100;
      tf.tidy(() => {
        const weight = tf.stack([tf.zeros([vocabSize]), tf.tensor1d(logits)]) as tf.Tensor2D;
        const { ids } = take(lmHeadTopK([[5, 1]], weight, 300, { transposeWeight: true }));
        expect(ids[0]).toEqual(rankIds(logits, 300));
      });
    });

    it('answers more rows than a batch usually has', () => {
      const rows = 1300;
      const hidden = Array.from({ length: rows }, (_, row) => [row % 7 === 0 ? 1 : -1]);
      const { ids } = take(lmHeadTopK(hidden, [[1], [3], [2]], 3));
      expect(ids).toEqual(hidden.map(([h]) => (h === 1 ? [1, 2, 0] : [0, 2, 1])));
    });

    it('has lmHeadTopKDense, whose k is 50', () => {
      tf.tidy(() => {
        const logits = randomIntegers(80, -5, 5, 50);
        const { values, indices } = lmHeadTopKDense([[1]], tf.tensor2d(logits, [80, 1]));
        expect(indices.arraySync()).toEqual([rankIds(logits, 50)]);
        expect(values.shape).toEqual([1, 50]);
        expect(lmHeadTopKDense([1], tf.tensor2d(logits, [80, 1]), 2).indices.arraySync()).toEqual(rankIds(logits, 2));
      });
    });
  });

  it('is one kernel for tfjs, which can profile it', async () => {
    const { hidden, head, dispose } = inject('float32', [[1, 3, 2]]);
    const profile = await tf.profile(() => lmHeadTopK(hidden, head, 1).indices);
    expect(profile.kernels.filter(({ name }) => name === 'LmHeadTopK')).toHaveLength(1);
    if (backend !== 'composed') expect(profile.kernelNames).toEqual(['LmHeadTopK']);
    tf.dispose(profile.result);
    dispose();
  });

  it('uses a variable as a plain matrix with its present value', () => {
    const variable = tf.variable(tf.tensor2d([[1], [2]]));
    expect(take(lmHeadTopK([[1]], variable, 1)).ids).toEqual([[1]]);
    variable.assign(tf.tensor2d([[5], [2]]));
    expect(take(lmHeadTopK([[1]], variable, 1)).ids).toEqual([[0]]);
    variable.dispose();
  });
});
