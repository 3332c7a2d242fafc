import * as fc from 'fast-check';
import * as tf from '@tensorflow/tfjs-core';
import { localArgmaxCandidates, pickFromCandidates, vocabParallelArgmax } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { cutShards, random, randomFloats, randomIntegers, unequalSizes } from '../cases';
import { bestId } from '../reference';

function winners(logits: Float32Array, rows: number, vocabSize = logits.length / rows): number[] {
  const columns = logits.length / rows;
  return Array.from({ length: rows }, (_, row) => bestId(logits.subarray(row * columns, row * columns + vocabSize)));
}

function ids(tensor: tf.Tensor): number[] {
  return Array.from(tensor.dataSync());
}

/** Both ways that shards in one process can go: the op for all of them, and the halves that ranks would run. */
function bothWays(shards: tf.Tensor2D[], vocabStart = 0): number[][] {
  const whole = ids(vocabParallelArgmax(shards, { vocabStart }));
  let start = vocabStart;
  const perRank = shards.map((shard) => {
    const candidates = localArgmaxCandidates(shard, { vocabStart: start });
    start += shard.shape[1];
    return candidates;
  });
  return [whole, ids(pickFromCandidates(tf.stack(perRank)))];
}

describeEachBackend('vocabParallelArgmax', (backend) => {
  const native = backend === 'tensorflow';

  it.each([1, 2, 3, 7, 8, 9, 31, 32, 33, 65, 1000, 1023, 1024, 1025, 4096, 32001, 128256, 131072])(
    'finds the winner anywhere in %d columns',
    (vocabSize) => {
      const rows = 3;
      const logits = randomFloats(rows * vocabSize, 1);
      for (const place of [0, Math.floor(vocabSize / 2), vocabSize - 1]) {
        const copy = logits.slice();
        copy[place] = 2;
        tf.tidy(() =>
          expect(ids(vocabParallelArgmax(tf.tensor2d(copy, [rows, vocabSize])))).toEqual(winners(copy, rows)),
        );
      }
    },
  );

  it.each([1, 2, 33, 64])('handles %d rows, full of ties', (rows) => {
    const vocabSize = native ? 32001 : 2001;
    const logits = randomIntegers(rows * vocabSize, -5, 5, 2);
    tf.tidy(() =>
      expect(ids(vocabParallelArgmax(tf.tensor2d(logits, [rows, vocabSize])))).toEqual(winners(logits, rows)),
    );
  });

  it.each([1, 2, 3, 4, 8])('gives the same token from %d shards of unequal size', (count) => {
    for (const [rows, vocabSize] of [[1, 97], [5, 1000], native ? [64, 32001] : [8, 4001]]) {
      const logits = randomIntegers(rows * vocabSize, -50, 50, 3);
      const sizes = unequalSizes(vocabSize, count);
      tf.tidy(() => {
        for (const tokens of bothWays(cutShards(logits, rows, sizes))) expect(tokens).toEqual(winners(logits, rows));
      });
    }
  });

  it('gives the token of the concatenation whatever the logits and the cuts', () => {
    const special = fc.constantFrom(
      NaN,
      Infinity,
      -Infinity,
      0,
      -0,
      1.401298464324817e-45,
      -1.401298464324817e-45,
      1,
      -1,
    );
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.oneof(special, fc.float()), { minLength: 1, maxLength: 12 }), {
          minLength: 1,
          maxLength: 5,
        }),
        (shards) => {
          tf.tidy(() => {
            const expected = [bestId(shards.flat())];
            for (const tokens of bothWays(shards.map((shard) => tf.tensor2d([shard]))))
              expect(tokens).toEqual(expected);
          });
        },
      ),
      { numRuns: 150, seed: 4 },
    );
  });

  it('ranks NaN, infinities and zeros by the order, in every shard', () => {
    const cases: [number[][], number][] = [
      [
        [
          [1, NaN, 3],
          [Infinity, NaN, 4],
        ],
        1,
      ],
      [
        [
          [1, 2, 3],
          [Infinity, NaN, 4],
        ],
        4,
      ],
      [
        [
          [-Infinity, -Infinity],
          [-Infinity, -Infinity],
        ],
        0,
      ],
      [
        [
          [-Infinity, -Infinity],
          [-Infinity, -3e38],
        ],
        3,
      ],
      [
        [
          [-1, -0],
          [0, -1],
        ],
        1,
      ],
      [
        [
          [-1, 0],
          [-0, -1],
        ],
        1,
      ],
      [
        [
          [Infinity, 1],
          [Infinity, 2],
        ],
        0,
      ],
    ];
    tf.tidy(() => {
      for (const [shards, expected] of cases) {
        for (const tokens of bothWays(shards.map((shard) => tf.tensor2d([shard])))) expect(tokens).toEqual([expected]);
      }
    });
  });

  it('counts ids from vocabStart, exactly beyond 2^24', () => {
    tf.tidy(() => {
      const shards = [tf.tensor2d([[1, 5, 2]]), tf.tensor2d([[5, 6, 0]])];
      for (const vocabStart of [2 ** 24 - 3, 2 ** 24 + 1, 2 ** 31 - 7]) {
        for (const tokens of bothWays(shards, vocabStart)) expect(tokens).toEqual([vocabStart + 4]);
      }
    });
  });

  it('never returns a padded column', () => {
    const rows = 4;
    for (const [vocabSize, columns] of [
      [1, 9],
      [32001, 32064],
      [1000, 1001],
      [61, 128],
    ]) {
      const logits = randomFloats(rows * columns, 5).map((x) => x - 2);
      for (let row = 0; row < rows; row++)
        logits.fill(row === 1 ? NaN : 0, row * columns + vocabSize, (row + 1) * columns);
      const expected = winners(logits, rows, vocabSize);
      tf.tidy(() => {
        const tensor = tf.tensor2d(logits, [rows, columns]);
        expect(ids(vocabParallelArgmax(tensor, { vocabSize }))).toEqual(expected);
        const sizes = unequalSizes(columns, 3);
        expect(ids(vocabParallelArgmax(cutShards(logits, rows, sizes), { vocabSize }))).toEqual(expected);
        const candidates = localArgmaxCandidates(tensor, { vocabSize });
        expect(ids(pickFromCandidates(tf.expandDims<tf.Tensor3D>(candidates)))).toEqual(expected);
      });
    }
  });

  it('leaves out shards that are padding from end to end', () => {
    tf.tidy(() => {
      const shards = [tf.tensor2d([[1, 2]]), tf.tensor2d([[9, 9]]), tf.tensor2d([[9, NaN]])];
      expect(ids(vocabParallelArgmax(shards, { vocabSize: 2 }))).toEqual([1]);
      const real = localArgmaxCandidates(shards[0], {});
      const padding = localArgmaxCandidates(shards[1], { vocabStart: 2, vocabSize: 0 });
      expect(ids(padding)).toEqual(new Array(8).fill([-2147483648, 2147483647]).flat());
      expect(ids(pickFromCandidates(tf.stack([padding, real, padding]) as tf.Tensor3D))).toEqual([1]);
    });
  });

  it('reads column-major logits in place', () => {
    const [rows, vocabSize] = [5, 1003];
    const logits = randomIntegers(rows * vocabSize, -9, 9, 6);
    tf.tidy(() => {
      const matrix = tf.tensor2d(logits, [rows, vocabSize]);
      const transposed = tf.transpose(matrix);
      const options = { columnMajor: true, vocabSize: 1000, vocabStart: 7 };
      const expected = winners(logits, rows, 1000).map((id) => id + 7);
      expect(ids(vocabParallelArgmax(transposed, options))).toEqual(expected);
      const shards = cutShards(logits, rows, [400, 603]).map((shard) => tf.transpose(shard));
      expect(ids(vocabParallelArgmax(shards, options))).toEqual(expected);
      const candidates = localArgmaxCandidates(transposed, options);
      expect(ids(candidates)).toEqual(ids(localArgmaxCandidates(matrix, { vocabSize: 1000, vocabStart: 7 })));
      const square = tf.tensor2d(logits.slice(0, 32 * 32), [32, 32]); // no shape check can notice a mix-up here
      expect(ids(vocabParallelArgmax(tf.transpose(square), { columnMajor: true }))).toEqual(
        ids(vocabParallelArgmax(square)),
      );
    });
  });

  it('does not depend on the order of the ranks', () => {
    tf.tidy(() => {
      const parts = [
        [3, 1],
        [3, 4],
        [4, 4],
      ].map((row, rank) => localArgmaxCandidates([row], { vocabStart: 2 * rank }));
      const pick = (order: number[]) => ids(pickFromCandidates(tf.stack(order.map((i) => parts[i]))));
      expect([pick([0, 1, 2]), pick([2, 1, 0]), pick([1, 2, 0])]).toEqual([[3], [3], [3]]);
    });
  });

  it('has candidates that are the best of 8 slices, as key and id', () => {
    tf.tidy(() => {
      const candidates = ids(
        localArgmaxCandidates([[1, -1, 0, -0, NaN, Infinity, -Infinity, 2, 2]], { vocabStart: 10 }),
      );
      // 9 columns make slices of 2: five of them, and three without columns
      expect(candidates).toEqual([
        0x3f800000, 10, 0, 12, 0x7fffffff, 14, 0x40000000, 17, 0x40000000, 18, -2147483648, 2147483647, -2147483648,
        2147483647, -2147483648, 2147483647,
      ]);
      expect(ids(localArgmaxCandidates([-1, -Infinity])).slice(0, 4)).toEqual([-1065353217, 0, -2139095041, 1]);
    });
  });

  it('keeps leading dimensions', () => {
    tf.tidy(() => {
      const logits = tf.tensor(randomFloats(24, 7), [2, 3, 4]);
      expect(vocabParallelArgmax(logits).shape).toEqual([2, 3]);
      expect(vocabParallelArgmax([logits, logits]).shape).toEqual([2, 3]);
      expect(vocabParallelArgmax([1, 3, 2]).arraySync()).toBe(1);
      expect(
        vocabParallelArgmax([
          [1, 3, 2],
          [4, 0, 0],
        ]).arraySync(),
      ).toEqual([1, 0]);
      expect(vocabParallelArgmax(logits).dtype).toBe('int32');
      expect(localArgmaxCandidates(logits).shape).toEqual([6, 16]);
      expect(localArgmaxCandidates([1, 2]).shape).toEqual([1, 16]);
    });
  });

  it('gives empty tensors for zero rows', () => {
    tf.tidy(() => {
      expect(vocabParallelArgmax(tf.zeros([0, 128])).shape).toEqual([0]);
      expect(vocabParallelArgmax(tf.zeros([2, 0, 128])).shape).toEqual([2, 0]);
      expect(vocabParallelArgmax([tf.zeros([0, 5]), tf.zeros([0, 6])]).shape).toEqual([0]);
      expect(vocabParallelArgmax(tf.zeros([5, 0]), { columnMajor: true }).shape).toEqual([0]);
      expect(localArgmaxCandidates(tf.zeros([0, 128])).shape).toEqual([0, 16]);
      expect(pickFromCandidates(tf.zeros([2, 0, 16], 'int32')).shape).toEqual([0]);
      expect(vocabParallelArgmax(tf.zeros([0, 4])).dtype).toBe('int32');
    });
  });

  it('gives the same token on every run and at every batch size', () => {
    const vocabSize = 1500;
    const next = random(8);
    const row = Float32Array.from({ length: vocabSize }, () => Math.floor(next() * 20));
    const expected = bestId(row);
    tf.tidy(() => {
      for (const rows of [1, 2, 8, 33, 64, 129]) {
        const tensor = tf.tile(tf.tensor2d(row, [1, vocabSize]), [rows, 1]);
        for (let run = 0; run < 3; run++)
          expect(ids(vocabParallelArgmax(tensor))).toEqual(new Array(rows).fill(expected));
      }
    });
  });
});
