import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadTopKOptions, ShardTransport } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { binaryHead, denseHead, FORMATS, randomFloats, randomIntegers, randomSigns } from '../cases';
import { denseScores, logSumExpFault, rankIds, roundMatrix } from '../reference';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf } from './take';

const GROUP_SIZE = 32;

/** Everything a call gives, as bits; its tensors are disposed. */
function call(hidden: tf.Tensor, head: LmHead | tf.Tensor2D, k: number, options: LmHeadTopKOptions) {
  return tf.tidy(() => {
    const { values, indices, logSumExp } = lmHeadTopK(hidden, head, k, options);
    return {
      shape: values.shape,
      values: bitsOf(values.dataSync()),
      ids: Array.from(indices.dataSync()),
      sums: logSumExp && Array.from(logSumExp.dataSync()),
    };
  });
}

/** The whole head, and the shards of the same weights. */
function cutHead(format: HeadFormat, weight: tf.Tensor2D, worldSize: number, bias?: Float32Array) {
  const whole =
    format === 'binary'
      ? LmHead.binarize(weight, { groupSize: GROUP_SIZE, bias })
      : LmHead.dense(weight, { dtype: format, bias });
  const groupSize = format === 'binary' ? GROUP_SIZE : undefined;
  const shards = Array.from({ length: worldSize }, (_, rank) =>
    LmHead.shard(weight, { rank, worldSize, format, groupSize, bias }),
  );
  return { whole, shards, dispose: () => [whole, ...shards].forEach((head) => head.dispose()) };
}

describeEachBackend('lmHeadTopK with a group', () => {
  describe.each(FORMATS)('%s', (format) => {
    it.each([2, 3, 4, 8])('gives the bits of one process in each of %d ranks', (worldSize) => {
      for (const [rows, vocabSize, hiddenSize, integers] of [
        [1, 1001, 64, true],
        [3, 257, 96, false],
        [8, 65, 64, true], // the last 3 of 8 ranks hold nothing
        [64, 130, 32, false],
      ] as const) {
        const make = integers ? (n: number, seed: number) => randomIntegers(n, -2, 2, seed) : randomFloats;
        const w = make(vocabSize * hiddenSize, 1);
        const bias = rows % 2 === 0 ? make(vocabSize, 2) : undefined;
        const weight = tf.tensor2d(w, [vocabSize, hiddenSize]);
        const hidden = tf.tensor2d(make(rows * hiddenSize, 3), [rows, hiddenSize]);
        const { whole, shards, dispose } = cutHead(format, weight, worldSize, bias);
        const scores = new Float32Array(Int32Array.from(call(hidden, whole, vocabSize, {}).values).buffer);
        for (const k of [0, 1, 50, vocabSize]) {
          const expected = call(hidden, whole, k, { logSumExp: true });
          const actual = inAllRanks(worldSize, (group) =>
            call(hidden, shards[group.rank], k, { logSumExp: true, group }),
          );
          const { sums, ...best } = actual[0];
          expect({ ...best, sums: undefined }).toEqual({ ...expected, sums: undefined });
          const first = JSON.stringify(actual[0]); // expect compares long arrays slowly
          expect(actual.every((other) => JSON.stringify(other) === first)).toBe(true);
          sums?.forEach((sum, row) => {
            const own = scores.subarray(row * vocabSize, (row + 1) * vocabSize);
            expect(logSumExpFault(sum, own)).toBeUndefined();
            expect(Math.fround(own[0] - sum)).toBeLessThanOrEqual(0);
          });
        }
        tf.dispose([weight, hidden]);
        dispose();
      }
    });
  });

  it.each(['float32', 'bfloat16', 'float16'] as const)('finds the ids of a sort, %s', (format) => {
    const [rows, hiddenSize, vocabSize, worldSize] = [4, 16, 300, 3];
    const h = randomIntegers(rows * hiddenSize, -3, 3, 4);
    const w = randomIntegers(vocabSize * hiddenSize, -2, 2, 5);
    const weight = tf.tensor2d(w, [vocabSize, hiddenSize]);
    const hidden = tf.tensor2d(h, [rows, hiddenSize]);
    const { shards, dispose } = cutHead(format, weight, worldSize);
    const expected = denseScores(h, roundMatrix(w, format), hiddenSize).flatMap(({ scores }) => rankIds(scores, 200));
    for (const { ids } of inAllRanks(worldSize, (group) => call(hidden, shards[group.rank], 200, { group }))) {
      expect(ids).toEqual(expected);
    }
    tf.dispose([weight, hidden]);
    dispose();
  });

  it('reads a transposed weight', () => {
    const weight = tf.tensor2d(randomFloats(33 * 100, 6), [33, 100]);
    const hidden = tf.tensor2d(randomFloats(2 * 33, 7), [2, 33]);
    for (const format of ['float32', 'bfloat16'] as const) {
      const whole = LmHead.dense(weight, { dtype: format, transposed: true });
      const shards = [0, 1, 2].map((rank) => LmHead.shard(weight, { rank, worldSize: 3, format, transposed: true }));
      expect(shards.map((head) => [head.vocabStart, head.vocabSize])).toEqual([
        [0, 64],
        [64, 36],
        [100, 0],
      ]);
      const expected = call(hidden, whole, 100, {});
      for (const actual of inAllRanks(3, (group) => call(hidden, shards[group.rank], 100, { group }))) {
        expect(actual).toEqual(expected);
      }
      [whole, ...shards].forEach((head) => head.dispose());
    }
    tf.dispose([weight, hidden]);
  });

  it('takes plain matrices and heads of slices, with vocabStart and a bias of the call', () => {
    const [vocabSize, hiddenSize, cut] = [40, 64, 17];
    const w = randomFloats(vocabSize * hiddenSize, 8);
    const b = randomFloats(vocabSize, 9);
    const hidden = tf.tensor2d(randomFloats(2 * hiddenSize, 10), [2, hiddenSize]);
    const [whole, ...parts] = [w, w.slice(0, cut * hiddenSize), w.slice(cut * hiddenSize)].map((rows) =>
      tf.tensor2d(rows, [rows.length / hiddenSize, hiddenSize]),
    );
    const heads = parts.map((part) => LmHead.dense(part));
    const biases = [b.slice(0, cut), b.slice(cut)].map((part) => tf.tensor1d(part));
    const expected = call(hidden, whole, 30, { vocabStart: 2 ** 24 - 5, bias: b });
    const options = (group: ShardTransport) => {
      return { vocabStart: 2 ** 24 - 5 + group.rank * cut, bias: biases[group.rank], group };
    };
    for (const shards of [parts, heads]) {
      for (const actual of inAllRanks(2, (group) => call(hidden, shards[group.rank], 30, options(group)))) {
        expect(actual).toEqual(expected);
      }
    }
    tf.dispose([whole, hidden, ...parts, ...biases]);
    heads.forEach((head) => head.dispose());
  });

  it('keeps NaN, infinities and the sign of zeros of every shard', () => {
    const worldSize = 4; // the last holds nothing
    // prettier-ignore
    const cases = [
      [1, NaN, 3, Infinity, NaN, 4, -Infinity, 0, -0],
      [0, -0, 0, -0, 0, -0, -1, -0, 0],
      [5, 5, 5, 5, 5, 5, 5, 5, 5],
      new Array<number>(9).fill(-Infinity),
      new Array<number>(9).fill(NaN),
      [1, 2, 3, 4, 5, 6, Infinity, Infinity, -Infinity],
    ];
    for (const logits of cases) {
      const weight = tf.tensor2d(new Float32Array(9), [9, 1]);
      const hidden = tf.tensor2d([[0]]);
      const bias = Float32Array.from(logits);
      const whole = LmHead.dense(weight, { bias });
      const shards = [0, 1, 2, 3].map((rank) => LmHead.shard(weight, { rank, worldSize, multipleOf: 12, bias }));
      const expected = call(hidden, whole, 9, { logSumExp: true });
      for (const actual of inAllRanks(worldSize, (group) =>
        call(hidden, shards[group.rank], 9, { logSumExp: true, group }),
      )) {
        expect({ ...actual, sums: undefined }).toEqual({ ...expected, sums: undefined });
        expect(logSumExpFault((actual.sums as number[])[0], logits)).toBeUndefined();
      }
      tf.dispose([weight, hidden]);
      [whole, ...shards].forEach((head) => head.dispose());
    }
  });

  it('joins binary heads of given bits, and ranks that hold different sizes', () => {
    const [vocabSize, hiddenSize, groupSize, cut] = [50, 64, 32, 3];
    const signs = randomSigns(vocabSize * hiddenSize, 11);
    const scales = randomFloats(2 * vocabSize, 12);
    const hidden = tf.tensor2d(randomFloats(2 * hiddenSize, 13), [2, hiddenSize]);
    const part = (begin: number, end: number) =>
      binaryHead({
        vocabSize: end - begin,
        hiddenSize,
        groupSize,
        signs: signs.slice(begin * hiddenSize, end * hiddenSize),
        scales: scales.slice(2 * begin, 2 * end),
      });
    const [whole, ...shards] = [part(0, vocabSize), part(0, cut), part(cut, vocabSize)];
    const expected = call(hidden, whole, 20, {});
    for (const actual of inAllRanks(2, (group) =>
      call(hidden, shards[group.rank], 20, { vocabStart: cut * group.rank, group }),
    )) {
      expect(actual).toEqual(expected);
    }
    hidden.dispose();
    [whole, ...shards].forEach((head) => head.dispose());
  });

  it('keeps leading dimensions', () => {
    const head = denseHead(randomFloats(40, 14), 4, 'float32');
    const shapes = inAllRanks(2, (group) => {
      const result = lmHeadTopK(tf.ones([2, 3, 4]), head, 15, { vocabStart: 10 * group.rank, logSumExp: true, group });
      return [result.values.shape, result.indices.shape, result.logSumExp.shape];
    });
    expect(shapes[0]).toEqual([
      [2, 3, 15],
      [2, 3, 15],
      [2, 3],
    ]);
    expect(shapes[1]).toEqual(shapes[0]);
    head.dispose();
  });

  it('exchanges nothing with one rank, and where nothing is asked for', () => {
    const allGather = () => {
      throw new Error('called');
    };
    tf.tidy(() => {
      const alone = { rank: 0, worldSize: 1, allGather };
      expect(lmHeadTopK([1], [[1], [3], [2]], 2, { group: alone }).indices.arraySync()).toEqual([1, 2]);
      const two = { rank: 0, worldSize: 2, allGather };
      expect(lmHeadTopK(tf.zeros([0, 1]), [[1], [3]], 2, { group: two }).values.shape).toEqual([0, 2]);
      expect(lmHeadTopK([[1]], [[1], [3]], 0, { group: two }).values.shape).toEqual([1, 0]);
    });
  });
});
