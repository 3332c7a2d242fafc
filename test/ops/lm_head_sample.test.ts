import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadSampleOptions, LmHeadSampleResult } from 'tfjs-lm-head';
import { LmHead, lmHeadLogProbs, lmHeadSample, lmHeadTopK } from 'tfjs-lm-head';
import { noiseOf, noisy, seedWords } from '../../src/common/noise';
import { describeEachBackend } from '../backends';
import { FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { bestId, logSumExp } from '../reference';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf } from './take';

/** The ids and the bits of the log-probabilities of a result, which is disposed. */
function read({ ids, logProbs }: LmHeadSampleResult): { ids: number[]; logProbs: number[] } {
  const numbers = { ids: [...(ids.dataSync() as Int32Array)], logProbs: bitsOf(logProbs.dataSync()) };
  tf.dispose([ids, logProbs]);
  return numbers;
}

/** The id that a row of exact scores draws. */
function drawnId(scores: ArrayLike<number>, temperature: number, seed: number, step: number, rowId: number): number {
  const words = seedWords(seed, step);
  return bestId(Array.from(scores, (score, id) => noisy(score, temperature, noiseOf(words, 0, rowId, id))));
}

function randomHead(format: HeadFormat, weight: tf.Tensor2D): LmHead {
  return format === 'binary' ? LmHead.binarize(weight, { groupSize: 32 }) : LmHead.dense(weight, { dtype: format });
}

describeEachBackend('lmHeadSample', (backend) => {
  const native = backend === 'tensorflow';

  describe.each(FORMATS)('%s', (format) => {
    // A binary head's scores are 127 times the logits.
    const spread = format === 'binary' ? 127 : 1;

    it('draws the same on every backend for whole-number logits', () => {
      const [rows, vocabSize] = [5, native ? 20001 : 701];
      const logits = Array.from({ length: rows }, (_, row) => randomIntegers(vocabSize, -2, 2, row));
      const { hidden, head, factor, dispose } = inject(format, logits);
      const scores = logits.map((ofRow) => ofRow.map((logit) => logit * factor));
      for (const [seed, step] of [
        [0, 0],
        [1, 0],
        [0, 1],
        [2 ** 53 - 1, 2 ** 40 + 5],
        [2 ** 32, 2 ** 53 - 1],
      ]) {
        for (const t of [0.5, 1, 3]) {
          const temperature = Math.fround(t * spread);
          const { ids } = read(lmHeadSample(hidden, head, { seed, step, temperature }));
          expect(ids).toEqual(scores.map((ofRow, row) => drawnId(ofRow, temperature, seed, step, row)));
        }
        const temperatures = Float32Array.from({ length: rows }, (_, row) => spread * (row / 2)); // 0 for the first
        const rowIds = [7, 7, 2 ** 31 - 1, 0, 12345];
        const { ids } = read(lmHeadSample(hidden, head, { seed, step, temperature: temperatures, rowIds }));
        expect(ids).toEqual(scores.map((ofRow, row) => drawnId(ofRow, temperatures[row], seed, step, rowIds[row])));
      }
      dispose();
    });

    it('has the log-probability at temperature 1 of what it draws', () => {
      const [rows, vocabSize, hiddenSize] = [6, 400, 64];
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 1), [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 2), [rows, hiddenSize]);
      const head = randomHead(format, weight);
      for (const options of [{}, { softCap: 2, scale: 1.5, adjust: { ids: [3, 4], add: 3 } }]) {
        for (const temperature of [0, 0.3, 4]) {
          const sample = lmHeadSample(hidden, head, { seed: 3, temperature, ...options });
          const wanted = lmHeadLogProbs(hidden, head, tf.expandDims(sample.ids, -1), options);
          expect(bitsOf(sample.logProbs.dataSync())).toEqual(bitsOf(wanted.logProbs.dataSync()));
          tf.dispose([sample.ids, sample.logProbs, wanted.logProbs, wanted.ranks, wanted.logSumExp]);
        }
      }
      tf.dispose([weight, hidden]);
      head.dispose();
    });

    it('draws the same alone, and at any place of a batch with the same row ids', () => {
      const [hiddenSize, vocabSize] = native ? [512, 4001] : [96, 300];
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 4), [vocabSize, hiddenSize]);
      const head = randomHead(format, weight);
      const row = randomFloats(hiddenSize, 5);
      const options: LmHeadSampleOptions = { seed: 8, step: 9, temperature: 2 };
      const alone = read(lmHeadSample(tf.tensor2d(row, [1, hiddenSize]), head, { ...options, rowIds: [41] }));
      for (const rows of [1, 2, 8, 33, 129]) {
        const places = [...new Set([0, Math.floor(rows / 2), rows - 1])];
        const h = randomFloats(rows * hiddenSize, 6);
        const rowIds = Int32Array.from({ length: rows }, (_, i) => 1000 + i);
        for (const place of places) {
          h.set(row, place * hiddenSize);
          rowIds[place] = 41;
        }
        const batch = tf.tidy(() =>
          read(lmHeadSample(tf.tensor2d(h, [rows, hiddenSize]), head, { ...options, rowIds })),
        );
        for (const place of places) {
          expect([batch.ids[place], batch.logProbs[place]]).toEqual([alone.ids[0], alone.logProbs[0]]);
        }
      }
      weight.dispose();
      head.dispose();
    });

    it('draws the same over 1, 2, 4 and 8 shards, and at another place of the vocabulary another', () => {
      const [rows, vocabSize, hiddenSize] = [7, 450, 64];
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 7), [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(randomFloats(rows * hiddenSize, 8), [rows, hiddenSize]);
      const whole = randomHead(format, weight);
      const groupSize = format === 'binary' ? 32 : undefined;
      const mask = new Int32Array(Math.ceil(vocabSize / 32)).fill(0x77777777);
      const options: LmHeadSampleOptions = { seed: 10, temperature: [0, 1, 2, 3, 4, 5, 6], mask, softCap: 4 };
      const expected = read(lmHeadSample(hidden, whole, options));
      for (const worldSize of [1, 2, 4, 8]) {
        const shards = Array.from({ length: worldSize }, (_, rank) =>
          LmHead.shard(weight, { rank, worldSize, format, groupSize }),
        );
        const actual = inAllRanks(worldSize, (group) =>
          read(lmHeadSample(hidden, shards[group.rank], { ...options, group })),
        );
        actual.forEach((numbers) => expect(numbers).toEqual(expected));
        shards.forEach((shard) => shard.dispose());
      }
      const elsewhere = (vocabStart: number) => {
        const { ids } = read(lmHeadSample(hidden, whole, { seed: 10, temperature: 5, vocabStart }));
        return ids.map((id) => id - vocabStart);
      };
      expect(elsewhere(1000)).not.toEqual(elsewhere(0));
      expect(elsewhere(2 ** 31 - 1 - vocabSize).every((place) => place >= 0 && place < vocabSize)).toBe(true);
      tf.dispose([weight, hidden]);
      whole.dispose();
    });

    it('draws the best id at temperature 0, as lmHeadTopK does', () => {
      const [rows, vocabSize, hiddenSize] = [9, 500, 32];
      const weight = tf.tensor2d(randomIntegers(vocabSize * hiddenSize, -2, 2, 9), [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(randomIntegers(rows * hiddenSize, -2, 2, 10), [rows, hiddenSize]);
      const head = randomHead(format, weight);
      const top = lmHeadTopK(hidden, head, 1);
      for (const temperature of [0, -0, tf.scalar(0), new Float32Array(rows)]) {
        const { ids } = read(lmHeadSample(hidden, head, { seed: 11, temperature }));
        expect(ids).toEqual(Array.from(top.indices.dataSync()));
        if (temperature instanceof tf.Tensor) temperature.dispose();
      }
      tf.dispose([weight, hidden, top.values, top.indices]);
      head.dispose();
    });

    it('never draws a masked id, and -1 where all are', () => {
      const vocabSize = 200;
      const { hidden, head, factor, dispose } = inject(format, [
        randomIntegers(vocabSize, -2, 2, 11),
        randomIntegers(vocabSize, -2, 2, 12),
        randomIntegers(vocabSize, -2, 2, 13),
      ]);
      const words = Math.ceil(vocabSize / 32);
      const mask = new Int32Array(3 * words);
      mask.set([0, 0x00010010, 0, 0x01000000], 0); // ids 36, 48 and 120
      mask.fill(-1, 2 * words); // also beyond the vocabulary
      const given = tf.tensor2d(mask, [3, words], 'int32');
      const drawn = new Set<number>();
      for (let step = 0; step < 60; step++) {
        const { ids, logProbs } = read(
          lmHeadSample(hidden, head, { seed: 12, step, temperature: 5 * factor, mask: given }),
        );
        drawn.add(ids[0]);
        expect(ids[1]).toBe(-1);
        expect(logProbs[1]).toBe(bitsOf([NaN])[0]);
        expect(ids[2] >= 0 && ids[2] < vocabSize).toBe(true);
      }
      expect([...drawn].sort((a, b) => a - b)).toEqual([36, 48, 120]);
      given.dispose();
      dispose();
    });

    it('draws NaN first, then +Infinity, and never -Infinity', () => {
      const cases: [number[], number, number][] = [
        [[0, NaN, Infinity, NaN, 1], 1, NaN],
        [[0, -Infinity, Infinity, Infinity, 1], 2, NaN],
        [[-Infinity, -Infinity, -3e38, -Infinity, -Infinity], 2, 0],
        [new Array<number>(5).fill(-Infinity), -1, NaN],
      ];
      for (const [bias, id, logProb] of cases) {
        const { hidden, head, dispose } = inject(format, [new Float32Array(5)], Float32Array.from(bias));
        for (const temperature of [0, 1, 2]) {
          const sample = read(lmHeadSample(hidden, head, { seed: 13, temperature }));
          expect(sample).toEqual({ ids: [id], logProbs: bitsOf([logProb]) });
        }
        dispose();
      }
    });
  });

  it('composes options: a draw is that of the scores that they leave', () => {
    const logits = randomIntegers(100, -3, 3, 14);
    const { hidden, head, dispose } = inject('float32', [logits, logits]);
    const bias = randomIntegers(100, -2, 2, 15);
    const scores = Float32Array.from(logits, (logit, id) => {
      const score = 2 * (logit + bias[id]);
      const adjusted = id === 7 || id === 50 ? (score > 0 ? score / 2 : score * 2) + 5 : score;
      return id % 4 === 3 ? -Infinity : adjusted;
    });
    const options: LmHeadSampleOptions = {
      seed: 16,
      bias,
      softCap: Infinity,
      scale: 2,
      adjust: { ids: [7, 50, -1], add: 5, repetition: 2 },
      mask: new Int32Array(4).fill(0x77777777),
    };
    for (let step = 0; step < 40; step++) {
      const { ids, logProbs } = lmHeadSample(hidden, head, { ...options, step, temperature: 2 });
      const expected = [0, 1].map((row) => drawnId(scores, 2, 16, step, row));
      expect(Array.from(ids.dataSync())).toEqual(expected);
      logProbs.dataSync().forEach((logProb: number, row: number) => {
        expect(Math.abs(logProb - (scores[expected[row]] - logSumExp(scores)))).toBeLessThanOrEqual(1e-5);
      });
      tf.dispose([ids, logProbs]);
    }
    dispose();
  });

  it('keeps leading dimensions, and takes options of as many rows', () => {
    tf.tidy(() => {
      const weight = tf.tensor2d(randomFloats(50, 17), [50, 1]);
      const h = randomFloats(6, 18);
      const options = { seed: 19, temperature: [1, 2, 3, 4, 5, 6], rowIds: [5, 4, 3, 2, 1, 0] };
      const flat = read(lmHeadSample(tf.tensor2d(h, [6, 1]), weight, options));
      const rank3 = tf.tensor3d(h, [2, 3, 1]);
      const nested = {
        seed: 19,
        temperature: tf.tensor2d(options.temperature, [2, 3]),
        rowIds: tf.tensor2d(options.rowIds, [2, 3], 'int32'),
      };
      for (const given of [options, nested]) {
        const result = lmHeadSample(rank3, weight, given);
        expect([result.ids.shape, result.ids.dtype]).toEqual([[2, 3], 'int32']);
        expect([result.logProbs.shape, result.logProbs.dtype]).toEqual([[2, 3], 'float32']);
        expect(read(result)).toEqual(flat);
      }
      const one = lmHeadSample([h[0]], weight, { seed: 19, rowIds: [5] });
      expect([one.ids.shape, one.logProbs.shape]).toEqual([[], []]);
      expect(read(one)).toEqual(
        read(lmHeadSample([h[0]], weight, { seed: 19, rowIds: tf.scalar(5, 'int32'), temperature: [1] })),
      );
      const none = lmHeadSample(tf.zeros([3, 0, 1]), weight, { seed: 1 });
      expect([none.ids.shape, none.logProbs.shape]).toEqual([
        [3, 0],
        [3, 0],
      ]);
    });
  });

  it('is two kernels for tfjs', async () => {
    const { hidden, head, dispose } = inject('float32', [[1, 3, 2]]);
    const profile = await tf.profile(() => lmHeadSample(hidden, head, { seed: 1 }));
    const own = profile.kernels.map(({ name }) => name).filter((name) => name.startsWith('LmHead'));
    expect(own).toEqual(['LmHeadDraw', 'LmHeadScores']);
    tf.dispose(profile.result);
    dispose();
  });
});
