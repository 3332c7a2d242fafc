/** What the options of lmHeadTopK make of a score: bias, softCap, scale, adjust, mask, alone and together. */
import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHead, LmHeadTopKOptions } from 'tfjs-lm-head';
import { lmHeadTopK } from 'tfjs-lm-head';
import { activate, describeEachBackend } from '../backends';
import { binaryHead, denseHead, FORMATS, inject, random, randomFloats, randomIntegers, randomSigns } from '../cases';
import type { RowOptions, Scores, ScoreStep } from '../reference';
import {
  denseScores,
  finalScores,
  logSumExpFault,
  quantizedScores,
  quantizeRows,
  rankIds,
  roundMatrix,
  SCORE_STEPS,
  topKFault,
} from '../reference';
import { bitsOf, take } from './take';

const [ROWS, HIDDEN_SIZE, VOCAB_SIZE] = [3, 64, 130];
const LISTED = 40;

const hiddenNumbers = randomFloats(ROWS * HIDDEN_SIZE, 1);
const hiddenTensor = (shape = [ROWS, HIDDEN_SIZE]) => tf.tensor(hiddenNumbers, shape);

/** A head, and the float64 scores of `hiddenNumbers` with it. */
function makeHead(format: HeadFormat): { head: LmHead; scores: Scores[] } {
  const w = randomFloats(VOCAB_SIZE * HIDDEN_SIZE, 2);
  if (format !== 'binary') {
    const scores = denseScores(hiddenNumbers, roundMatrix(w, format), HIDDEN_SIZE);
    return { head: denseHead(w, HIDDEN_SIZE, format), scores };
  }
  const signs = randomSigns(w.length, 2);
  const scales = randomFloats(2 * VOCAB_SIZE, 3);
  const weights = { vocabSize: VOCAB_SIZE, hiddenSize: HIDDEN_SIZE, groupSize: 32, signs, scales };
  const scores = quantizedScores(quantizeRows(hiddenNumbers, HIDDEN_SIZE), weights);
  const magnitudes = new Float64Array(VOCAB_SIZE); // they are exact
  return { head: binaryHead(weights), scores: scores.map((row) => ({ scores: Float64Array.from(row), magnitudes })) };
}

/** Words of a mask that allows about half of all ids. */
function randomWords(length: number, seed: number): Int32Array {
  const next = random(seed);
  return Int32Array.from({ length }, () => 2 ** 32 * next());
}

/** Options of each row; ids are listed twice, and -1 is among them. */
const OF_ROW = Array.from({ length: ROWS }, (_, row) => ({
  bias: randomFloats(VOCAB_SIZE, 10 + row).map((x) => 4 * x),
  softCap: [2.5, 6, 30][row],
  scale: [-1.5, 0.625, 3][row],
  adjust: {
    ids: Int32Array.from(randomIntegers(LISTED, -1, VOCAB_SIZE - 1, 20 + row)),
    add: randomFloats(LISTED, 30 + row).map((x) => 5 * x),
    repetition: randomFloats(LISTED, 40 + row).map((x) => 1.5 + x),
  },
  mask: randomWords(Math.ceil(VOCAB_SIZE / 32), 50 + row),
}));

/** Row 0's options for all rows alike. */
function sharedOptions(): Required<Pick<LmHeadTopKOptions, ScoreStep>> {
  const { bias, softCap, scale, adjust, mask } = OF_ROW[0];
  return { bias, softCap, scale, adjust, mask };
}

/** Each row's own options, as tensors with these leading dimensions; those of one number a row have `leading` alone. */
function rowOptions(leading: number[] = [ROWS], rows = OF_ROW): Required<Pick<LmHeadTopKOptions, ScoreStep>> {
  const join = (lists: ArrayLike<number>[], dtype: 'float32' | 'int32') =>
    tf.tensor(
      lists.flatMap((list) => Array.from(list)),
      [...leading, lists[0].length],
      dtype,
    );
  return {
    bias: join(
      rows.map(({ bias }) => bias),
      'float32',
    ),
    softCap: tf.tensor(
      rows.map(({ softCap }) => softCap),
      leading,
    ),
    scale: tf.tensor(
      rows.map(({ scale }) => scale),
      leading,
    ),
    adjust: {
      ids: join(
        rows.map(({ adjust }) => adjust.ids),
        'int32',
      ),
      add: join(
        rows.map(({ adjust }) => adjust.add),
        'float32',
      ),
      repetition: join(
        rows.map(({ adjust }) => adjust.repetition),
        'float32',
      ),
    },
    mask: join(
      rows.map(({ mask }) => mask),
      'int32',
    ),
  };
}

function pick<T extends object>(options: T, names: readonly ScoreStep[]): Partial<T> {
  return Object.fromEntries(
    Object.entries(options).filter(([name]) => names.includes(name as ScoreStep)),
  ) as Partial<T>;
}

/** Every option, every two of them, and all. */
const SUBSETS: ScoreStep[][] = [
  ...SCORE_STEPS.flatMap((a, i) => [[a], ...SCORE_STEPS.slice(i + 1).map((b) => [a, b])]),
  [...SCORE_STEPS],
];

describeEachBackend('the score options of lmHeadTopK', (backend) => {
  describe.each(FORMATS)('%s', (format) => {
    it.each(SUBSETS.map((names) => [names.join(' and '), names] as const))('does %s', (_names, names) => {
      const { head, scores } = makeHead(format);
      for (const perRow of [false, true]) {
        tf.tidy(() => {
          const options = pick(perRow ? rowOptions() : sharedOptions(), names);
          const expected = scores.map((row, r) => finalScores(row, pick(OF_ROW[perRow ? r : 0], names) as RowOptions));
          const result = lmHeadTopK(hiddenTensor(), head, VOCAB_SIZE, { ...options, logSumExp: true });
          const sums = result.logSumExp.dataSync();
          const { values, ids } = take(result);
          expected.forEach((row, r) => {
            expect(topKFault(values[r], ids[r], row, VOCAB_SIZE)).toBeUndefined();
            expect(logSumExpFault(sums[r], values[r])).toBeUndefined();
          });
          const best = take(lmHeadTopK(hiddenTensor(), head, 20, options));
          expect(best.ids).toEqual(ids.map((row) => row.slice(0, 20)));
          expect(best.values.map(bitsOf)).toEqual(values.map((row) => bitsOf(row.slice(0, 20))));
        });
      }
      head.dispose();
    });

    it('takes penalties without an addend, and addends without a penalty, also as one number', () => {
      const { head, scores } = makeHead(format);
      const { ids, add, repetition } = OF_ROW[0].adjust;
      const same = (value: number) => new Float32Array(LISTED).fill(value);
      const cases: [LmHeadTopKOptions['adjust'], RowOptions['adjust']][] = [
        [
          { ids, add },
          { ids, add },
        ],
        [
          { ids, repetition },
          { ids, repetition },
        ],
        [
          { ids, add: -2.5 },
          { ids, add: same(-2.5) },
        ],
        [
          { ids, repetition: 1.25 },
          { ids, repetition: same(1.25) },
        ],
        [
          { ids, add: 0.5, repetition },
          { ids, add: same(0.5), repetition },
        ],
      ];
      for (const [adjust, plain] of cases) {
        const { values, ids } = take(lmHeadTopK(hiddenTensor(), head, 50, { adjust }));
        scores.forEach((row, r) =>
          expect(topKFault(values[r], ids[r], finalScores(row, { adjust: plain }), 50)).toBeUndefined(),
        );
      }
      head.dispose();
    });

    it('takes the steps in their order, where every other order gives another score', () => {
      const logits = [3, 3];
      const { hidden, head, factor, dispose } = inject(format, [logits]);
      const reference = { scores: Float64Array.from(logits, (x) => x * factor), magnitudes: new Float64Array(2) };
      const options = {
        bias: [2 * factor, 2 * factor],
        softCap: 4 * factor,
        scale: -2,
        // the second id is masked: an infinity that is added later than that would show
        adjust: { ids: [0, 1], add: [-factor, Infinity], repetition: [2, 2] },
        mask: [1],
      };
      const expected = finalScores(reference, options).scores;
      expect(expected[1]).toBe(-Infinity);
      const others = permutations(SCORE_STEPS).filter((steps) => steps.join() !== SCORE_STEPS.join());
      expect(others).toHaveLength(119);
      for (const steps of others) {
        const { scores } = finalScores(reference, options, 0, steps);
        expect(scores.every((score, id) => score === expected[id] || Math.abs(score - expected[id]) < 0.1)).toBe(false);
      }
      const { values, ids } = take(lmHeadTopK(hidden, head, 2, options));
      expect(ids).toEqual([[0, 1]]);
      expect(Math.abs(values[0][0] - expected[0])).toBeLessThan(1e-5 * 8 * factor);
      expect(values[0][1]).toBe(-Infinity);
      dispose();
    });

    it('gives each row the bits that it has alone', () => {
      const { head } = makeHead(format);
      tf.tidy(() => {
        const together = take(lmHeadTopK(hiddenTensor(), head, VOCAB_SIZE, rowOptions()));
        OF_ROW.forEach((options, r) => {
          const row = tf.tensor1d(hiddenNumbers.subarray(r * HIDDEN_SIZE, (r + 1) * HIDDEN_SIZE));
          for (const own of [options, rowOptions([1], [options]), rowOptions([], [options])]) {
            const { values, indices } = lmHeadTopK(row, head, VOCAB_SIZE, own);
            expect(Array.from(indices.dataSync())).toEqual(together.ids[r]);
            expect(bitsOf(values.dataSync())).toEqual(bitsOf(together.values[r]));
          }
        });
      });
      head.dispose();
    });

    it('does as the options say with NaN, infinities and zeros', () => {
      const special = [NaN, Infinity, -Infinity, -0, 0, NaN, 0];
      const bias = Float32Array.from(special);
      const { hidden, head, factor, dispose } = inject(format, [[0, 0, 0, 0, 0, 0, 20]], bias);
      const ids = [0, 1, 2, 6];
      const large = 20 * factor;
      const cases: [LmHeadTopKOptions, number[]][] = [
        [{ softCap: 1 }, [NaN, 1, -1, 0, 0, NaN, 1]],
        [{ softCap: Infinity }, [NaN, Infinity, -Infinity, 0, 0, NaN, large]],
        [{ scale: -1 }, [NaN, -Infinity, Infinity, 0, 0, NaN, -large]],
        [{ scale: 0 }, [NaN, NaN, NaN, 0, 0, NaN, 0]],
        [{ adjust: { ids, repetition: 2 } }, [NaN, Infinity, -Infinity, 0, 0, NaN, large / 2]],
        [{ adjust: { ids, add: -Infinity } }, [NaN, NaN, -Infinity, 0, 0, NaN, -Infinity]],
        [{ adjust: { ids, add: Infinity } }, [NaN, Infinity, NaN, 0, 0, NaN, Infinity]],
        [{ mask: [0b1011110] }, [-Infinity, Infinity, -Infinity, 0, 0, -Infinity, large]],
        [{ softCap: 2, mask: [0b0100100] }, [-Infinity, -Infinity, -2, -Infinity, -Infinity, NaN, -Infinity]],
      ];
      for (const [options, expected] of cases) {
        tf.tidy(() => {
          const { values, indices, logSumExp } = lmHeadTopK(hidden, head, 7, { ...options, logSumExp: true });
          const found = Array.from(indices.dataSync());
          expect(found).toEqual(rankIds(expected, 7));
          expect(Array.from(values.dataSync(), (x) => x + 0)).toEqual(found.map((id) => expected[id] + 0));
          expect(logSumExpFault(logSumExp.dataSync()[0], expected)).toBeUndefined();
        });
      }
      dispose();
    });

    it('changes no bit with options that say nothing', () => {
      const { head } = makeHead(format);
      const call = (options: LmHeadTopKOptions) => {
        const result = lmHeadTopK(hiddenTensor(), head, VOCAB_SIZE, { ...options, logSumExp: true });
        const sums = bitsOf(result.logSumExp.dataSync());
        const { values, ids } = take(result);
        return { values: values.map(bitsOf), ids, sums };
      };
      const plain = call({});
      const words = Math.ceil(VOCAB_SIZE / 32);
      const list = Array.from({ length: VOCAB_SIZE }, (_, id) => id);
      for (const options of [
        { softCap: Infinity },
        { softCap: [Infinity, Infinity, Infinity], scale: [1, 1, 1] },
        { adjust: { ids: list, add: -0, repetition: 1 } },
        { adjust: { ids: [-1, -1], add: 5 } },
        { adjust: { ids: [], add: [] } },
        { adjust: { ids: tf.zeros([ROWS, 0], 'int32'), repetition: tf.zeros([ROWS, 0]) } },
        { mask: new Int32Array(words).fill(-1) },
        { mask: new Array<number>(words).fill(2 ** 32 - 1) },
        { bias: new Float32Array(VOCAB_SIZE).fill(-0) },
        { bias: undefined, softCap: undefined, scale: undefined, adjust: undefined, mask: undefined },
      ]) {
        expect(call(options)).toEqual(plain);
      }
      head.dispose();
    });
  });

  it("gives a binary head's scores the bits of backend 'cpu'", async () => {
    const bits = () =>
      tf.tidy(() => {
        const { head } = makeHead('binary');
        const all = [sharedOptions(), rowOptions()].flatMap((options) =>
          SUBSETS.map((names) => {
            const result = lmHeadTopK(hiddenTensor(), head, VOCAB_SIZE, pick(options, names));
            const { values, ids } = take(result);
            return { ids, values: values.map(bitsOf) };
          }),
        );
        head.dispose();
        return all;
      });
    const own = bits();
    await activate('cpu');
    const expected = bits();
    await activate(backend);
    expect(own).toEqual(expected);
  });

  it("keeps hidden's leading dimensions, which options a row may have, too", () => {
    const { head } = makeHead('float32');
    const rank4 = [1, ROWS, 1];
    tf.tidy(() => {
      const flat = lmHeadTopK(hiddenTensor(), head, 9, { ...rowOptions(), logSumExp: true });
      for (const leading of [rank4, [ROWS]]) {
        const options = { ...rowOptions(leading), logSumExp: true } as const;
        const result = lmHeadTopK(hiddenTensor([...rank4, HIDDEN_SIZE]), head, 9, options);
        expect([result.values, result.indices, result.logSumExp].map(({ shape }) => shape)).toEqual([
          [...rank4, 9],
          [...rank4, 9],
          rank4,
        ]);
        expect(bitsOf(result.values.dataSync())).toEqual(bitsOf(flat.values.dataSync()));
        expect(result.indices.dataSync()).toEqual(flat.indices.dataSync());
        expect(bitsOf(result.logSumExp.dataSync())).toEqual(bitsOf(flat.logSumExp.dataSync()));
      }
    });
    head.dispose();
  });

  it('takes one number for all rows as a number, a scalar and a tensor [1]', () => {
    const { head } = makeHead('float32');
    tf.tidy(() => {
      const call = (options: LmHeadTopKOptions) => take(lmHeadTopK(hiddenTensor(), head, 9, options));
      const expected = call({ softCap: 3, scale: 0.5 });
      expect(call({ softCap: tf.scalar(3), scale: tf.scalar(0.5) })).toEqual(expected);
      expect(call({ softCap: tf.tensor1d([3]), scale: [0.5] })).toEqual(expected);
      expect(call({ softCap: [3, 3, 3], scale: Float32Array.of(0.5, 0.5, 0.5) })).toEqual(expected);
    });
    head.dispose();
  });

  it('leaves no tensor behind, and those of the caller alone', () => {
    const { head } = makeHead('float32');
    const hidden = hiddenTensor();
    const options = tf.tidy(() => tf.keep(rowOptions().bias as tf.Tensor));
    const before = tf.memory().numTensors;
    take(lmHeadTopK(hidden, head, 5, sharedOptions()));
    take(lmHeadTopK(hidden, head, 5, { bias: options, softCap: [1, 2, 3] }));
    expect(tf.memory().numTensors).toBe(before);
    expect(options.isDisposed).toBe(false);
    tf.dispose([hidden, options]);
    head.dispose();
  });

  it('gives empty results for no rows', () => {
    const { head } = makeHead('float32');
    tf.tidy(() => {
      const none = { softCap: tf.zeros([0]), mask: tf.zeros([0, 5], 'int32'), bias: tf.zeros([0, VOCAB_SIZE]) };
      expect(lmHeadTopK(tf.zeros([0, HIDDEN_SIZE]), head, 3, none).values.shape).toEqual([0, 3]);
      expect(lmHeadTopK(tf.zeros([0, HIDDEN_SIZE]), head, 3, sharedOptions()).indices.shape).toEqual([0, 3]);
    });
    head.dispose();
  });
});

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) =>
    permutations([...items.slice(0, i), ...items.slice(i + 1)]).map((rest) => [item, ...rest]),
  );
}
