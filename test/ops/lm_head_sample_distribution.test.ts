/** Whether draws follow the softmax: chi-squared tests, each of which a right sampler fails once in a million seeds. */
import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadSampleOptions } from 'tfjs-lm-head';
import { lmHeadSample, lmHeadVerify } from 'tfjs-lm-head';
import { describeEachBackend, GPU_MODE } from '../backends';
import { randomFloats } from '../cases';

const { exp, max, sqrt } = Math;

/** Quantile of the standard normal distribution: 1e-6 lies above. */
const QUANTILE = 4.753424;
/** Fewer draws than that are expected of no cell: the rarest ids are counted together. */
const LEAST_EXPECTED = 10;

/** softmax(scores / temperature). */
function softmax(scores: ArrayLike<number>, temperature = 1): Float64Array {
  const largest = Array.from(scores).reduce((most, score) => max(most, score), -Infinity);
  const weights = Float64Array.from(scores, (score) => exp((score - largest) / temperature));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/** Why counts do not follow these probabilities, or undefined if they may. */
function chiSquaredFault(counts: ArrayLike<number>, probabilities: Float64Array): string | undefined {
  const draws = Array.from(counts).reduce((sum, count) => sum + count, 0);
  let [chiSquared, cells, restCount, restExpected] = [0, 0, 0, 0];
  const addCell = (count: number, expected: number) => {
    chiSquared += (count - expected) ** 2 / expected;
    cells++;
  };
  for (let id = 0; id < counts.length; id++) {
    const expected = draws * probabilities[id];
    if (expected === 0 && counts[id] > 0) return `id ${id} cannot be drawn`;
    if (expected >= LEAST_EXPECTED) {
      addCell(counts[id], expected);
    } else {
      restCount += counts[id];
      restExpected += expected;
    }
  }
  if (restExpected > 0) addCell(restCount, restExpected);
  // Wilson and Hilferty 1931: the cube root is nearly normal.
  const freedom = cells - 1;
  const limit = freedom * (1 - 2 / (9 * freedom) + QUANTILE * sqrt(2 / (9 * freedom))) ** 3;
  return chiSquared <= limit ? undefined : `chi-squared ${chiSquared} of ${cells} cells is over ${limit}`;
}

describe('chiSquaredFault', () => {
  it('sees a distribution that is a little off', () => {
    const probabilities = softmax(randomFloats(1000, 1).map((x) => 2 * x));
    const exact = probabilities.map((p) => Math.round(1e5 * p));
    expect(chiSquaredFault(exact, probabilities)).toBeUndefined();
    const off = exact.map((count, id) => (id % 2 === 0 ? 1.2 : 0.8) * count);
    expect(chiSquaredFault(off, probabilities)).toMatch('chi-squared');
    expect(chiSquaredFault([1, 2], Float64Array.of(1, 0))).toBe('id 1 cannot be drawn');
  });
});

describeEachBackend('draws of lmHeadSample', (backend) => {
  const native = backend === 'tensorflow';
  const rowsOfCall = native ? 100000 : 5000;

  /** How often each id is drawn of these scores. */
  function count(scores: Float32Array, draws: number, options: LmHeadSampleOptions): Int32Array {
    const counts = new Int32Array(scores.length);
    const weight = tf.tensor2d(scores, [scores.length, 1]);
    const rows = Math.min(draws, rowsOfCall);
    const hidden = tf.ones([rows, 1]);
    for (let step = 0; step < draws / rows; step++) {
      const { ids, logProbs } = lmHeadSample(hidden, weight, { step, ...options });
      for (const id of ids.dataSync() as Int32Array) counts[id]++;
      tf.dispose([ids, logProbs]);
    }
    tf.dispose([weight, hidden]);
    return counts;
  }

  /** As many as are quick enough for a test. */
  function drawsOf(vocabSize: number): number {
    const scores = GPU_MODE ? 1e12 : native ? 5e7 : 1e7;
    return Math.min(native ? 1e6 : 4e4, Math.floor(scores / vocabSize));
  }

  it.each([[50, 1], [50, 0.5], [1000, 1], [1000, 2], ...(GPU_MODE ? [[50257, 1]] : [])])(
    'follow the softmax of %d scores at temperature %d',
    (vocabSize, temperature) => {
      const scores = randomFloats(vocabSize, vocabSize).map((x) => 3 * x);
      const draws = drawsOf(vocabSize);
      const counts = count(scores, draws, { seed: 1, temperature });
      expect(chiSquaredFault(counts, softmax(scores, temperature))).toBeUndefined();
    },
  );

  it('follow a softmax with one large probability, and with a mask', () => {
    const scores = randomFloats(300, 2);
    scores[17] = 6;
    const mask = new Int32Array(10).fill(0x0fffffff);
    const counts = count(scores, native ? 50000 : 5000, { seed: 2, mask });
    const allowed = scores.map((score, id) => (id % 32 < 28 ? score : -Infinity));
    expect(chiSquaredFault(counts, softmax(allowed))).toBeUndefined();
  });

  it('follow it from step to step and from seed to seed, too', () => {
    const scores = randomFloats(8, 3);
    const weight = tf.tensor2d(scores, [8, 1]);
    for (const options of [(i: number) => ({ seed: 3, step: i }), (i: number) => ({ seed: i })]) {
      const counts = new Int32Array(8);
      for (let i = 0; i < 2000; i++) {
        const { ids, logProbs } = lmHeadSample([1], weight, options(i));
        counts[ids.dataSync()[0]]++;
        tf.dispose([ids, logProbs]);
      }
      expect(chiSquaredFault(counts, softmax(scores))).toBeUndefined();
    }
    weight.dispose();
  });

  it('are independent of those of the next row: pairs follow the product', () => {
    const scores = randomFloats(12, 4);
    const probabilities = softmax(scores);
    const rows = native ? 100000 : 40000;
    const weight = tf.tensor2d(scores, [12, 1]);
    const { ids, logProbs } = lmHeadSample(tf.ones([rows, 1]), weight, { seed: 5 });
    const drawn = ids.dataSync();
    const counts = new Int32Array(144);
    for (let row = 0; row < rows; row += 2) counts[12 * drawn[row] + drawn[row + 1]]++;
    const pairs = Float64Array.from(
      { length: 144 },
      (_, i) => probabilities[Math.floor(i / 12)] * probabilities[i % 12],
    );
    expect(chiSquaredFault(counts, pairs)).toBeUndefined();
    tf.dispose([weight, ids, logProbs]);
  });

  it('keep a draft token with its probability, and put a draw of the others in its place', () => {
    const scores = randomFloats(20, 5).map((x) => 2 * x);
    const probabilities = softmax(scores, 1.5);
    const sequences = native ? 100000 : 20000;
    const weight = tf.tensor2d(scores, [20, 1]);
    const draft = tf.fill([sequences, 1], 4, 'int32');
    const { accepted, next } = lmHeadVerify(tf.ones([sequences, 2, 1]), weight, draft, { seed: 6, temperature: 1.5 });
    const [kept, following] = [accepted.dataSync(), next.dataSync()];
    const [first, second] = [new Int32Array(20), new Int32Array(20)];
    following.forEach((id: number, i: number) => {
      first[kept[i] === 1 ? 4 : id]++;
      if (kept[i] === 1) second[id]++;
    });
    expect(chiSquaredFault(first, probabilities)).toBeUndefined();
    expect(chiSquaredFault(second, probabilities)).toBeUndefined();
    tf.dispose([weight, draft, accepted, next]);
  });
});
