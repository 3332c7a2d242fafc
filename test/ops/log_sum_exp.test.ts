import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadTopKOptions } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { LogSumExp, STATE_WORDS } from '../../src/common/log_sum_exp';
import { runKernel } from '../../src/common/run_kernel';
import { LmHeadTopK } from '../../src/kernel_names';
import { describeEachBackend } from '../backends';
import type { Shape } from '../cases';
import { BINARY_SHAPES, DENSE_SHAPES, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { logSumExp, logSumExpFault } from '../reference';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf, take } from './take';

/** The result of a call with `logSumExp`, its tensors disposed. */
function takeAll(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor2D,
  k: number,
  options: LmHeadTopKOptions = {},
) {
  const result = lmHeadTopK(hidden, head, k, { ...options, logSumExp: true });
  const sums = Array.from(result.logSumExp.dataSync());
  result.logSumExp.dispose();
  return { ...take(result), sums };
}

function headOf(format: HeadFormat, weight: tf.Tensor2D, bias?: Float32Array, groupSize?: number): LmHead {
  return format === 'binary'
    ? LmHead.binarize(weight, { groupSize, bias })
    : LmHead.dense(weight, { dtype: format, bias });
}

/** A head of random weights. */
function randomHead(format: HeadFormat, shape: Shape & { groupSize?: number }, bias?: Float32Array): LmHead {
  const { vocabSize, hiddenSize, groupSize } = shape;
  const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 60), [vocabSize, hiddenSize]);
  const head = headOf(format, weight, bias, groupSize);
  weight.dispose();
  return head;
}

/**
 * A row and a head whose log-sum-exp is nearly 0, so that its bits show what would vanish in the rounding of a larger one: a
 * sum of exponentials in another order.
 */
function telling(format: HeadFormat, hiddenSize: number, vocabSize: number) {
  const row = randomFloats(hiddenSize, 71).map((x) => 4 * x);
  const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 72), [vocabSize, hiddenSize]);
  const bias = randomFloats(vocabSize, 73);
  const head = headOf(format, weight, bias, 32);
  const { sums } = takeAll([Array.from(row)], head, 1);
  head.dispose();
  return { row, weight, bias: bias.map((x) => x - sums[0]) };
}

/** Whether no value is greater than the log-sum-exp of its row, so that no log-probability is above 0. */
function atMost(values: number[][], sums: number[]): boolean {
  return values.every((row, r) => row.every((value) => Math.fround(value - sums[r]) <= 0));
}

describeEachBackend('logSumExp of lmHeadTopK', (backend) => {
  const native = backend === 'tensorflow';

  describe.each(FORMATS)('%s', (format) => {
    const shapes = format === 'binary' ? BINARY_SHAPES : DENSE_SHAPES;

    it.each(shapes.filter(({ large }) => native || !large))(
      'is close to float64 for every k, at $rows x $hiddenSize x $vocabSize',
      (shape) => {
        const { rows, hiddenSize, vocabSize } = shape;
        const head = randomHead(format, shape, rows % 2 === 0 ? randomFloats(vocabSize, 61) : undefined);
        const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 62), [rows, hiddenSize]);
        const { values: scores } = take(lmHeadTopK(hidden, head, vocabSize)); // all of them, whatever their order
        for (const k of new Set([0, 1, Math.min(50, vocabSize), vocabSize])) {
          const { values, sums } = takeAll(hidden, head, k);
          expect(sums.map((sum, row) => logSumExpFault(sum, scores[row]))).toEqual(scores.map(() => undefined));
          expect(values.map(bitsOf)).toEqual(scores.map((row) => bitsOf(row.slice(0, k))));
          expect(atMost(values, sums)).toBe(true);
        }
        hidden.dispose();
        head.dispose();
      },
    );

    it('neither overflows nor loses small terms, for scores of up to 10,000', () => {
      const vocabSize = native ? 40007 : 9007;
      const unit = format === 'binary' ? 1 : 128; // a binary score is 127 times its logit
      const large = (n: number) => n * unit;
      const row = (logit: (id: number) => number) => Float32Array.from({ length: vocabSize }, (_, id) => logit(id));
      const logits = [
        row(() => 0),
        row(() => large(78)),
        row(() => large(-78)),
        row((id) => large((id % 157) - 78)),
        row((id) => large(78 - (id % 157))),
        row((id) => large(id === vocabSize - 1 ? 78 : -78)),
        row((id) => large(id === 0 ? 78 : -78)),
        row((id) => (id === 1000 ? 0.125 : 0)),
        randomIntegers(vocabSize, -64, 64, 63).map((n) => n / 64),
        randomIntegers(vocabSize, -64, 0, 64).map((n) => n / 2048),
      ];
      const { hidden, head, factor, dispose } = inject(format, logits);
      const { values, sums } = takeAll(hidden, head, 3);
      const scores = logits.map((row) => row.map((logit) => logit * factor));
      expect(sums.map((sum, row) => logSumExpFault(sum, scores[row]))).toEqual(scores.map(() => undefined));
      expect(atMost(values, sums)).toBe(true);
      dispose();
    });

    it('counts every term where it is nearly 0', () => {
      for (const vocabSize of [1, 2, 63, 1000, 5001]) {
        const bias = new Float32Array(vocabSize).fill(-Math.log(vocabSize));
        const { hidden, head, dispose } = inject(format, [new Float32Array(vocabSize)], bias);
        const { values, sums } = takeAll(hidden, head, 1);
        expect(logSumExpFault(sums[0], bias)).toBeUndefined();
        expect(atMost(values, sums)).toBe(true);
        dispose();
      }
    });

    it('is NaN with a NaN score, otherwise +inf with one of +inf, and -inf if all are -inf', () => {
      const vocabSize = 5000;
      const cases: [sum: number, fill: number, others: Record<number, number>][] = [
        [NaN, 0, { 3000: NaN }],
        [NaN, NaN, {}],
        [NaN, -Infinity, { 4999: NaN }],
        [NaN, Infinity, { 0: NaN }],
        [NaN, 1, { 0: Infinity, 17: NaN, 4000: -Infinity }],
        [Infinity, 1, { 2500: Infinity }],
        [Infinity, Infinity, {}],
        [Infinity, -Infinity, { 0: Infinity, 4999: Infinity }],
        [-Infinity, -Infinity, {}],
        [2.5, -Infinity, { 1234: 2.5 }],
      ];
      for (const [sum, fill, others] of cases) {
        const bias = new Float32Array(vocabSize).fill(fill);
        for (const [id, value] of Object.entries(others)) bias[Number(id)] = value;
        const { hidden, head, dispose } = inject(format, [new Float32Array(vocabSize)], bias);
        for (const k of [0, 2]) expect(takeAll(hidden, head, k).sums).toEqual([sum]);
        dispose();
      }
    });

    it('keeps a row with NaN or infinities away from its neighbours', () => {
      const shape = { rows: 6, hiddenSize: 128, vocabSize: 700, groupSize: 32 };
      const head = randomHead(format, shape);
      const h = randomFloats(shape.rows * shape.hiddenSize, 65);
      h[1 * shape.hiddenSize + 5] = NaN;
      h[2 * shape.hiddenSize + 127] = Infinity;
      h.fill(0, 4 * shape.hiddenSize, 5 * shape.hiddenSize);
      const hidden = tf.tensor2d(h, [shape.rows, shape.hiddenSize]);
      const { values, sums } = takeAll(hidden, head, shape.vocabSize);
      expect(sums.map((sum, row) => logSumExpFault(sum, values[row]))).toEqual(sums.map(() => undefined));
      expect(sums.map(Number.isFinite)).toEqual([true, false, false, true, true, true]);
      expect(sums[1]).toBeNaN();
      expect(sums[2]).toBe(format === 'binary' ? NaN : Infinity);
      expect(sums[4]).toBeCloseTo(Math.log(700), 4);
      hidden.dispose();
      head.dispose();
    });

    it('is -inf in the row whose scores all are', () => {
      if (format === 'binary') return; // a binary row with an infinity has NaN for scores
      tf.tidy(() => {
        const weight = tf.fill<tf.Rank.R2>([900, 2], 1);
        const head = LmHead.dense(weight, { dtype: format });
        const { sums } = takeAll([[-Infinity, 1], [1, 1], [Infinity, 1]], head, 1); // prettier-ignore
        expect([sums[0], sums[2]]).toEqual([-Infinity, Infinity]);
        expect(sums[1]).toBeCloseTo(2 + Math.log(900), 4);
        head.dispose();
      });
    });

    it('has the same bits on every run', () => {
      const shape = { rows: 33, hiddenSize: 64, vocabSize: native ? 20011 : 2011, groupSize: 64 };
      const head = randomHead(format, shape);
      const hidden = tf.tensor2d(randomFloats(shape.rows * shape.hiddenSize, 66), [shape.rows, shape.hiddenSize]);
      const first = bitsOf(takeAll(hidden, head, 20).sums);
      for (let run = 0; run < 10; run++) expect(bitsOf(takeAll(hidden, head, 20).sums)).toEqual(first);
      hidden.dispose();
      head.dispose();
    });

    it('has the same bits in every batch, in every place there, and for every k', () => {
      const [hiddenSize, vocabSize] = [64, native ? 5003 : 1003];
      const { row, weight, bias } = telling(format, hiddenSize, vocabSize);
      const head = headOf(format, weight, bias, 32);
      const one = tf.tensor2d(row, [1, hiddenSize]);
      const others = tf.tensor2d(randomFloats(64 * hiddenSize, 70), [64, hiddenSize]);
      const expected = bitsOf(takeAll(one, head, 50).sums);
      tf.tidy(() => {
        for (const k of [0, 1, 7, 600]) expect(bitsOf(takeAll(one, head, k).sums)).toEqual(expected);
        for (const rows of [2, 3, 8, 33, 64, 65]) {
          for (const place of new Set([0, 1, rows >> 1, rows - 1])) {
            const parts = [
              tf.slice(others, [0, 0], [place, hiddenSize]),
              one,
              tf.slice(others, [place, 0], [rows - 1 - place, hiddenSize]),
            ];
            const { sums } = takeAll(tf.concat2d(parts, 0), head, rows % 2 === 0 ? 1 : 50);
            expect(bitsOf([sums[place]])).toEqual(expected);
          }
        }
      });
      tf.dispose([weight, one, others]);
      head.dispose();
    });

    it.each([2, 3, 7])('has the same bits in %d shards that are cut at multiples of 64', (worldSize) => {
      const [hiddenSize, vocabSize] = [64, native ? 5003 : 1003];
      const { row, weight, bias } = telling(format, hiddenSize, vocabSize);
      const hidden = tf.tensor2d(row, [1, hiddenSize]);
      const make = (begin: number, end: number) => {
        const part = tf.slice(weight, [begin, 0], [end - begin, hiddenSize]);
        const head = headOf(format, part, bias.slice(begin, end), 32);
        part.dispose();
        return head;
      };
      const whole = make(0, vocabSize);
      const expected = bitsOf(takeAll(hidden, whole, 5).sums);
      const terms = Math.ceil(vocabSize / 64);
      // Of about the same size, and the first much smaller than the others.
      for (const first of [Math.round(terms / worldSize), 1]) {
        const ends = Array.from(
          { length: worldSize },
          (_, rank) => 64 * (first + Math.floor((rank * (terms - first)) / (worldSize - 1))),
        );
        const starts = [0, ...ends];
        const heads = ends.map((end, rank) => make(starts[rank], Math.min(vocabSize, end)));
        const ranks = inAllRanks(worldSize, (group) =>
          takeAll(hidden, heads[group.rank], 5, { vocabStart: starts[group.rank], group }),
        );
        expect(ranks.map(({ sums }) => bitsOf(sums))).toEqual(ranks.map(() => expected));
        heads.forEach((head) => head.dispose());
      }
      whole.dispose();
      tf.dispose([weight, hidden]);
    });

    it('is of more rows than a batch usually has', () => {
      const logits = [[1, 2, 4], [0, 0, -1], [3, 3, 3]]; // prettier-ignore
      const { hidden, head, factor, dispose } = inject(format, logits);
      const batch = tf.tile(hidden, [434, 1]);
      const { sums } = takeAll(batch, head, 3);
      const scores = logits.map((row) => row.map((logit) => logit * factor));
      expect(sums.map((sum, row) => logSumExpFault(sum, scores[row % 3]))).toEqual(sums.map(() => undefined));
      batch.dispose();
      dispose();
    });
  });

  describe('shapes', () => {
    it('has the leading dimensions of hidden', () => {
      const shape = { rows: 12, hiddenSize: 32, vocabSize: 500 };
      const head = randomHead('bfloat16', shape);
      const h = randomFloats(shape.rows * shape.hiddenSize, 67);
      tf.tidy(() => {
        for (const leading of [[], [1], [12], [3, 4], [2, 1, 3, 2]]) {
          const rows = tf.util.sizeFromShape(leading);
          const part = h.subarray(0, rows * shape.hiddenSize);
          const flat = lmHeadTopK(tf.tensor2d(part, [rows, shape.hiddenSize]), head, 7, { logSumExp: true });
          const hidden = tf.tensor(part, [...leading, shape.hiddenSize]);
          for (const k of [7, 0]) {
            const { values, indices, logSumExp } = lmHeadTopK(hidden, head, k, { logSumExp: true });
            expect([values.shape, indices.shape, logSumExp.shape]).toEqual([[...leading, k], [...leading, k], leading]);
            expect([values.dtype, indices.dtype, logSumExp.dtype]).toEqual(['float32', 'int32', 'float32']);
            if (k > 0) expect([...indices.dataSync()]).toEqual([...flat.indices.dataSync()]);
            if (k > 0) expect(bitsOf(values.dataSync())).toEqual(bitsOf(flat.values.dataSync()));
            if (k > 0) expect(bitsOf(logSumExp.dataSync())).toEqual(bitsOf(flat.logSumExp.dataSync()));
          }
        }
      });
      head.dispose();
    });

    it('is empty for zero rows', () => {
      tf.tidy(() => {
        for (const [leading, k] of [
          [[0], 2],
          [[3, 0], 1],
          [[0, 2], 0],
        ] as [number[], number][]) {
          // prettier-ignore
          const { values, logSumExp } = lmHeadTopK(tf.zeros([...leading, 4]), tf.ones<tf.Rank.R2>([5, 4]), k, {
            logSumExp: true,
          });
          expect([values.shape, logSumExp.shape, logSumExp.dtype]).toEqual([[...leading, k], leading, 'float32']);
          expect([...logSumExp.dataSync()]).toEqual([]);
        }
      });
    });

    it('comes only when asked for', () => {
      tf.tidy(() => {
        const call = (options?: LmHeadTopKOptions) => lmHeadTopK([[1, 2]], [[3, 4], [5, 6]], 1, options); // prettier-ignore
        for (const options of [undefined, {}, { logSumExp: false }, { logSumExp: undefined }]) {
          expect(Object.keys(call(options))).toEqual(['values', 'indices']);
        }
        expect(Object.keys(call({ logSumExp: true }))).toEqual(['values', 'indices', 'logSumExp']);
        const known: tf.Tensor = lmHeadTopK([[1]], [[2]], 1, { logSumExp: true }).logSumExp;
        // @ts-expect-error it may be missing when nobody knows whether it was asked for
        const unknown: tf.Tensor = call().logSumExp;
        expect([known.shape, unknown]).toEqual([[1], undefined]);
      });
    });
  });

  it('tells ranks its sum in words that every backend reads alike', () => {
    tf.tidy(() => {
      const [rows, hiddenSize, vocabSize] = [3, 64, 1003];
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 74), [rows, hiddenSize]);
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 75), [vocabSize, hiddenSize]);
      const attrs = { format: 'float32', k: 2, groupSize: 0, vocabSize: 0, transposeWeight: false, vocabStart: 0 };
      const kernel = (logSumExp: boolean) =>
        runKernel<tf.Tensor[]>(LmHeadTopK, { hidden, weight }, { ...attrs, logSumExp, logSumState: true });
      const [, , logs, states] = kernel(true);
      expect([states.shape, states.dtype]).toEqual([[rows, STATE_WORDS], 'int32']);
      const [, , alone] = kernel(false);
      expect([...alone.dataSync()]).toEqual([...states.dataSync()]);
      const read = Array.from({ length: rows }, (_, row) => {
        const sum = new LogSumExp();
        sum.addStored((states.dataSync() as Int32Array).subarray(row * STATE_WORDS, (row + 1) * STATE_WORDS));
        return sum.value();
      });
      // Logarithms may differ in the last place.
      read.forEach((value, row) => expect(Math.abs(value - logs.dataSync()[row])).toBeLessThan(1e-6 * value));
    });
  });

  it('goes with every other option', () => {
    tf.tidy(() => {
      const weight = tf.tensor2d([0, 1, 2, 1, 0, 2], [2, 3]);
      const options = { transposeWeight: true, bias: [0, 0, -4], vocabStart: 50 };
      const { values, ids, sums } = takeAll([[1, 2]], weight, 2, options);
      expect([values, ids]).toEqual([[[2, 2]], [[50, 52]]]);
      expect(sums[0]).toBeCloseTo(logSumExp([2, 1, 2]), 5);
    });
  });

  it('gives log-probabilities whose exponentials add up to 1', () => {
    const shape = { rows: 3, hiddenSize: 64, vocabSize: 300 };
    const head = randomHead('float32', shape);
    tf.tidy(() => {
      const hidden = tf.tensor3d(randomFloats(3 * 64, 68), [3, 1, 64]);
      const { values, logSumExp } = lmHeadTopK(hidden, head, 300, { logSumExp: true });
      const probabilities = tf.exp(tf.sub(values, tf.expandDims(logSumExp, -1)));
      for (const sum of tf.sum(probabilities, -1).dataSync()) expect(sum).toBeCloseTo(1, 4);
    });
    head.dispose();
  });

  it('is part of the one kernel, whatever the rank of hidden', async () => {
    const head = LmHead.dense(tf.tensor2d([[1], [2]]));
    for (const shape of [[1], [2, 1], [2, 3, 1]]) {
      const hidden = tf.ones(shape);
      const profile = await tf.profile(() => lmHeadTopK(hidden, head, 1, { logSumExp: true }));
      expect(profile.kernels.filter(({ name }) => name === 'LmHeadTopK')).toHaveLength(1);
      if (backend !== 'composed') expect(profile.kernelNames).toEqual(['LmHeadTopK']);
      tf.dispose([hidden, profile.result]);
    }
    head.dispose();
  });
});
