/** Which ids the options mask and adjust of lmHeadTopK are about: borders of words, lists, vocabStart, shards. */
import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKOptions, ShardTransport } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import type { RowOptions } from '../reference';
import { finalScores, logSumExpFault, rankIds } from '../reference';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf, take } from './take';

const VOCAB_SIZE = 97;
/** Both sides of each border of a mask's words, and the last id. */
const BORDERS = [0, 1, 31, 32, 33, 63, 64, 65, 95, 96];

/** Words in which the bits of these ids are set. */
function maskOf(ids: readonly number[], end: number): Int32Array {
  const words = new Int32Array(Math.ceil(end / 32));
  for (const id of ids) words[Math.floor(id / 32)] |= 1 << (id % 32);
  return words;
}

/** Scores that are whole numbers, and even, so that all steps are exact. */
function evenLogits(rows: number, seed: number): Float32Array[] {
  return Array.from({ length: rows }, (_, row) => randomIntegers(VOCAB_SIZE, -9, 9, seed + row).map((x) => 2 * x));
}

/** The top k of all scores after `options`, one a row. */
function expectedOf(logits: Float32Array[], factor: number, options: RowOptions[], vocabStart = 0) {
  const rows = logits.map((row, r) => {
    const scores = Float64Array.from(row, (x) => x * factor);
    return finalScores({ scores, magnitudes: new Float64Array(row.length) }, options[r], vocabStart).scores;
  });
  const places = rows.map((scores) => rankIds(scores, scores.length));
  return {
    ids: places.map((row) => row.map((place) => vocabStart + place)),
    values: places.map((row, r) => row.map((place) => rows[r][place] + 0)),
  };
}

/** `take`, with zeros of one sign. */
function takePlain(result: ReturnType<typeof lmHeadTopK>) {
  const { values, ids } = take(result);
  return { ids, values: values.map((row) => row.map((x) => x + 0)) };
}

describeEachBackend('the ids of mask and adjust', () => {
  describe.each(FORMATS)('%s', (format) => {
    it.each([0, 5, 64, 1000])('allows the ids whose bits are set, from vocabStart %d on', (vocabStart) => {
      const logits = evenLogits(BORDERS.length, 1);
      const { hidden, head, factor, dispose } = inject(format, logits);
      const end = vocabStart + VOCAB_SIZE;
      const everyOther = Array.from({ length: end }, (_, id) => id).filter((id) => id % 2 === 0);
      const masks = BORDERS.map((place, r) => maskOf(r === 5 ? everyOther : [vocabStart + place], end));
      const expected = expectedOf(
        logits,
        factor,
        masks.map((mask) => ({ mask })),
        vocabStart,
      );
      const mask = tf.tensor2d(Int32Array.from(masks.flatMap((words) => [...words])), [
        BORDERS.length,
        masks[0].length,
      ]);
      expect(takePlain(lmHeadTopK(hidden, head, VOCAB_SIZE, { mask, vocabStart }))).toEqual(expected);
      BORDERS.forEach((place, r) => expect(r === 5 || expected.ids[r][0] === vocabStart + place).toBe(true));
      // one mask for all rows
      const shared = expectedOf(
        logits,
        factor,
        masks.map(() => ({ mask: masks[5] })),
        vocabStart,
      );
      expect(takePlain(lmHeadTopK(hidden, head, VOCAB_SIZE, { mask: masks[5], vocabStart }))).toEqual(shared);
      mask.dispose();
      dispose();
    });

    it('answers rows that are masked altogether with the lowest ids, and others as if they were alone', () => {
      const logits = evenLogits(4, 20);
      const { hidden, head, dispose } = inject(format, logits);
      const words = Math.ceil(VOCAB_SIZE / 32);
      const mask = tf.tensor2d(
        [-1, 0, -1, 0].flatMap((word) => new Array<number>(words).fill(word)),
        [4, words],
        'int32',
      );
      for (const k of [1, 7, VOCAB_SIZE]) {
        tf.tidy(() => {
          const call = (options: LmHeadTopKOptions) => {
            const result = lmHeadTopK(hidden, head, k, { ...options, logSumExp: true });
            return { sums: Array.from(result.logSumExp.dataSync()), ...take(result) };
          };
          const plain = call({});
          const masked = call({ mask });
          for (const row of [0, 2]) {
            expect(masked.ids[row]).toEqual(plain.ids[row]);
            expect(bitsOf(masked.values[row])).toEqual(bitsOf(plain.values[row]));
            expect(masked.sums[row]).toBe(plain.sums[row]);
          }
          for (const row of [1, 3]) {
            expect(masked.ids[row]).toEqual(Array.from({ length: k }, (_, id) => id));
            expect(masked.values[row]).toEqual(new Array(k).fill(-Infinity));
            expect(masked.sums[row]).toBe(-Infinity);
          }
        });
      }
      mask.dispose();
      dispose();
    });

    it('masks what a NaN or an infinity would win', () => {
      const bias = new Float32Array(VOCAB_SIZE);
      [bias[3], bias[40], bias[96]] = [NaN, Infinity, NaN];
      const { hidden, head, dispose } = inject(format, [new Float32Array(VOCAB_SIZE).fill(1)], bias);
      const best = (allowed: number[]) => take(lmHeadTopK(hidden, head, 3, { mask: maskOf(allowed, VOCAB_SIZE) }));
      expect(best([3, 40, 50, 96]).ids).toEqual([[3, 96, 40]]);
      expect(best([40, 50, 51]).ids).toEqual([[40, 50, 51]]);
      expect(best([50, 51]).ids).toEqual([[50, 51, 0]]);
      dispose();
    });

    it.each([0, 5, 64, 1000])('adjusts the ids that are listed, from vocabStart %d on', (vocabStart) => {
      const logits = evenLogits(6, 30);
      const { hidden, head, factor, dispose } = inject(format, logits);
      const places = [
        BORDERS,
        [-1, 96, -1, -1, 0, -1, 31, -1, 32, -1],
        [32, 32, 31, 32, 31, 7, 7, 7, 96, 96], // of each, the last entry counts
        new Array<number>(10).fill(-1),
        [50, 49, 48, 47, 46, 45, 44, 43, 42, 41],
        new Array<number>(10).fill(64),
      ];
      const lists = places.map((row, r) => ({
        ids: Int32Array.from(row, (place) => (place < 0 ? -1 : vocabStart + place)),
        add: randomIntegers(10, -20, 20, 40 + r).map((x) => 2 * x),
        repetition: randomIntegers(10, -1, 1, 50 + r).map((x) => 2 ** x),
      }));
      const call = (adjust: LmHeadTopKOptions['adjust']) =>
        takePlain(lmHeadTopK(hidden, head, VOCAB_SIZE, { adjust, vocabStart }));
      const expected = (rows: RowOptions[]) => expectedOf(logits, factor, rows, vocabStart);
      const flat = (key: 'ids' | 'add' | 'repetition') => lists.flatMap((list) => [...list[key]]);
      const shape: [number, number] = [6, 10];
      tf.tidy(() => {
        const ids = tf.tensor2d(flat('ids'), shape, 'int32');
        const [add, repetition] = [tf.tensor2d(flat('add'), shape), tf.tensor2d(flat('repetition'), shape)];
        expect(call({ ids, add, repetition })).toEqual(expected(lists.map((adjust) => ({ adjust }))));
        const adds = lists.map((list) => ({ adjust: { ids: list.ids, add: list.add } }));
        expect(call({ ids, add })).toEqual(expected(adds));
        for (const adjust of lists) expect(call(adjust)).toEqual(expected(lists.map(() => ({ adjust }))));
      });
      dispose();
    });

    it('adjusts from lists that are longer than the vocabulary', () => {
      const logits = evenLogits(2, 60);
      const { hidden, head, factor, dispose } = inject(format, logits);
      for (const length of [1, 31, 33, 500, 5000]) {
        const ids = Int32Array.from(randomIntegers(length, -1, VOCAB_SIZE - 1, 61));
        const add = randomIntegers(length, -30, 30, 62);
        const adjust = { ids, add };
        const { values } = takePlain(lmHeadTopK(hidden, head, VOCAB_SIZE, { adjust }));
        expect(values).toEqual(expectedOf(logits, factor, [{ adjust }, { adjust }]).values);
      }
      dispose();
    });

    it('masks what an addend would win', () => {
      const { hidden, head, factor, dispose } = inject(format, [new Float32Array(VOCAB_SIZE).fill(2)]);
      const adjust = { ids: [31, 32, 33], add: [1000, 500, 250] };
      const mask = maskOf([7, 32, 33], VOCAB_SIZE);
      expect(take(lmHeadTopK(hidden, head, 4, { adjust, mask }))).toEqual({
        ids: [[32, 33, 7, 0]],
        values: [[500 + 2 * factor, 250 + 2 * factor, 2 * factor, -Infinity]],
      });
      dispose();
    });
  });

  it('finds adjusted and allowed ids far into a large vocabulary', () => {
    const vocabSize = 20001;
    tf.tidy(() => {
      const weight = tf.zeros<tf.Rank.R2>([vocabSize, 1]);
      const ids = [20000, 9984, 12345, 1, 19999];
      const adjust = { ids, add: [5, 4, 3, 2, 1] };
      expect(take(lmHeadTopK([[1]], weight, 6, { adjust })).ids).toEqual([[...ids, 0]]);
      const mask = maskOf([12345, 20000, 6], vocabSize);
      expect(take(lmHeadTopK([[1]], weight, 3, { adjust, mask })).ids).toEqual([[20000, 12345, 6]]);
      expect(take(lmHeadTopK([[1]], weight, 3, { mask })).ids).toEqual([[6, 12345, 20000]]);
    });
  });

  it('ignores ids of other parts of the vocabulary, and words that are no part of it', () => {
    const { hidden, head, dispose } = inject('float32', [[1, 3, 2]]);
    const vocabStart = 70;
    const adjust = { ids: [0, 69, 71, 73, 2 ** 31 - 2, 1, 2], add: [900, 900, -100, 900, 900, 900, 900] };
    expect(take(lmHeadTopK(hidden, head, 3, { adjust, vocabStart })).ids).toEqual([[72, 70, 71]]);
    const mask = new Int32Array(50).fill(-1);
    mask[2] &= ~(1 << 7); // id 71
    expect(take(lmHeadTopK(hidden, head, 3, { mask, vocabStart })).ids).toEqual([[72, 70, 71]]);
    dispose();
  });

  it('takes ids of any vocabulary where a shard is given another place than its own', () => {
    tf.tidy(() => {
      const shard = LmHead.shard(tf.zeros([100, 1]), { rank: 0, worldSize: 2 }); // ids [0, 64)
      const vocabStart = 1000;
      const [adjust, mask] = [{ ids: [1005, 1063], add: [2, 3] }, maskOf([1003, 1005], vocabStart + 64)];
      expect(take(lmHeadTopK([[1]], shard, 3, { adjust, vocabStart })).ids).toEqual([[1063, 1005, 1000]]);
      expect(take(lmHeadTopK([[1]], shard, 2, { adjust, mask, vocabStart })).ids).toEqual([[1005, 1003]]);
      expect(() => lmHeadTopK([[1]], shard, 2, { mask: maskOf([3], 100), vocabStart })).toThrow('n at least 34');
      shard.dispose();
    });
  });

  it('adjusts the largest ids', () => {
    const { hidden, head, dispose } = inject('float32', [[1, 3, 2]]);
    const vocabStart = 2 ** 31 - 4;
    const adjust = { ids: [2 ** 31 - 2, 2 ** 31 - 4], add: [10, 20] };
    expect(take(lmHeadTopK(hidden, head, 3, { adjust, vocabStart }))).toEqual({
      ids: [[vocabStart, vocabStart + 2, vocabStart + 1]],
      values: [[21, 12, 3]],
    });
    dispose();
  });

  describe.each(FORMATS)('%s, cut into shards', (format) => {
    it.each([2, 3])('gives the bits of one process in each of %d ranks', (worldSize) => {
      const [rows, hiddenSize, vocabSize] = [3, 64, 150];
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 70), [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 71), [rows, hiddenSize]);
      const groupSize = format === 'binary' ? 32 : undefined;
      const shard = (rank: number, ranks: number) =>
        // Cut at multiples of 64 ids, where the log-sum-exp has the bits of the whole.
        LmHead.shard(weight, { rank, worldSize: ranks, multipleOf: 64 * ranks, format, groupSize });
      const whole = shard(0, 1);
      const shards = Array.from({ length: worldSize }, (_, rank) => shard(rank, worldSize));
      const listed = tf.tensor2d(randomIntegers(rows * 30, -1, vocabSize - 1, 72), [rows, 30], 'int32');
      const shared = {
        softCap: 4,
        scale: 1.5,
        adjust: { ids: tf.tidy(() => tf.reshape(tf.slice(listed, 0, 1), [30])), add: -1.5, repetition: 1.25 },
        mask: Int32Array.from(randomIntegers(5, -(2 ** 31), 2 ** 31 - 1, 73)),
      };
      const perRow = {
        softCap: [3, 4, 5],
        scale: tf.tensor1d([1, -1, 0.25]),
        adjust: { ids: listed, add: tf.tensor2d(randomFloats(rows * 30, 74), [rows, 30]) },
        mask: tf.tensor2d(randomIntegers(rows * 5, -(2 ** 31), 2 ** 31 - 1, 75), [rows, 5], 'int32'),
      };
      const biases = tf.tensor2d(randomFloats(rows * vocabSize, 76), [rows, vocabSize]);
      const call = (head: LmHead, k: number, options: LmHeadTopKOptions, group?: ShardTransport) =>
        tf.tidy(() => {
          const bias = tf.slice(biases, [0, head.vocabStart], [rows, head.vocabSize]);
          const { values, indices, logSumExp } = lmHeadTopK(hidden, head, k, {
            ...options,
            bias,
            group,
            logSumExp: true,
          });
          const ids = Array.from(indices.dataSync());
          return { values: bitsOf(values.dataSync()), ids, sums: Array.from(logSumExp.dataSync()) };
        });
      for (const options of [shared, perRow]) {
        for (const k of [1, 40, vocabSize]) {
          const { sums: exact, ...expected } = call(whole, k, options);
          for (const actual of inAllRanks(worldSize, (group) => call(shards[group.rank], k, options, group))) {
            const { sums, ...best } = actual;
            expect(best).toEqual(expected);
            expect(sums).toEqual(exact);
          }
          if (k < vocabSize) continue;
          const scores = new Float32Array(Int32Array.from(expected.values).buffer);
          exact.forEach((sum, row) => {
            const own = scores.subarray(row * vocabSize, (row + 1) * vocabSize);
            expect(logSumExpFault(sum, own)).toBeUndefined();
          });
        }
      }
      tf.dispose([weight, hidden, biases, shared.adjust, perRow]);
      [whole, ...shards].forEach((head) => head.dispose());
    });
  });

  it('reads masks and lists of ranks that know their own ids alone', () => {
    const [vocabSize, cut, vocabStart] = [80, 37, 11];
    const logits = randomIntegers(vocabSize, -9, 9, 80);
    const ids = [11, 47, 48, 60, 90];
    const adjust = { ids, add: [3.5, 4.5, -5.5, 6.5, 7.5] };
    const mask = maskOf(
      Array.from({ length: 100 }, (_, id) => id).filter((id) => id % 3 !== 0),
      vocabStart + vocabSize,
    );
    tf.tidy(() => {
      const weight = tf.tensor2d(logits, [vocabSize, 1]);
      const parts = [tf.slice(weight, 0, cut), tf.slice(weight, cut)];
      const options = { adjust, mask };
      const expected = take(lmHeadTopK([[1]], weight, vocabSize, { ...options, vocabStart }));
      const actual = inAllRanks(2, (group) => {
        const start = vocabStart + group.rank * cut;
        return take(lmHeadTopK([[1]], parts[group.rank], vocabSize, { ...options, vocabStart: start, group }));
      });
      expect(actual).toEqual([expected, expected]);
    });
  });
});
