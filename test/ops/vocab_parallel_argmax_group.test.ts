import * as fc from 'fast-check';
import * as tf from '@tensorflow/tfjs-core';
import { LmHead, vocabParallelArgmax } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { cutShards, randomFloats, randomIntegers, unequalSizes } from '../cases';
import { bestId } from '../reference';
import { inAllRanks } from '../simulated_ranks';

interface Cut {
  vocabStart?: number;
  columnMajor?: boolean;
}

/** Tokens in every rank, whose shards of [rows, V] logits have these sizes. */
function tokens(logits: Float32Array, rows: number, sizes: number[], { vocabStart = 0, columnMajor }: Cut = {}) {
  return tf.tidy(() => {
    const shards = cutShards(logits, rows, sizes).map((shard) => (columnMajor ? tf.transpose(shard) : shard));
    const starts = sizes.map((_, rank) => sizes.slice(0, rank).reduce((sum, size) => sum + size, vocabStart));
    return inAllRanks(sizes.length, (group) => {
      const options = { vocabStart: starts[group.rank], columnMajor, group };
      return Array.from(vocabParallelArgmax(shards[group.rank], options).dataSync());
    });
  });
}

function winners(logits: Float32Array, rows: number): number[] {
  const columns = logits.length / rows;
  return Array.from({ length: rows }, (_, row) => bestId(logits.subarray(row * columns, (row + 1) * columns)));
}

describeEachBackend('vocabParallelArgmax with a group', (backend) => {
  const native = backend === 'tensorflow';

  describe.each([2, 3, 4, 8])('%d ranks', (worldSize) => {
    const everyRank = <T>(result: T) => new Array<T>(worldSize).fill(result);

    it.each([1, 3, 8, 64])('find the token of the whole in %d rows', (rows) => {
      for (const vocabSize of [97, native ? 32001 : 1001]) {
        const sizes = unequalSizes(vocabSize, worldSize);
        // the latter are full of ties, within shards and across them
        for (const logits of [randomFloats(rows * vocabSize, 1), randomIntegers(rows * vocabSize, -3, 3, 2)]) {
          const expected = winners(logits, rows);
          expect(tokens(logits, rows, sizes)).toEqual(everyRank(expected));
          expect(tokens(logits, rows, sizes, { columnMajor: true })).toEqual(everyRank(expected));
          tf.tidy(() => {
            const whole = tf.tensor2d(logits, [rows, vocabSize]);
            expect(Array.from(vocabParallelArgmax(whole).dataSync())).toEqual(expected);
          });
        }
      }
    });

    it('find a winner in any rank, and the first of ties between them', () => {
      const sizes = unequalSizes(40, worldSize);
      for (let winner = 0; winner < 40; winner++) {
        const logits = new Float32Array(80).fill(-1);
        logits[winner] = 5;
        logits.fill(5, 40 + winner);
        expect(tokens(logits, 2, sizes)).toEqual(everyRank([winner, winner]));
      }
    });

    it('rank NaN, infinities and zeros as one process does', () => {
      const special = fc.constantFrom(NaN, Infinity, -Infinity, 0, -0, 1.401298464324817e-45, 1, -1);
      fc.assert(
        fc.property(fc.array(fc.oneof(special, fc.float()), { minLength: 8, maxLength: 30 }), (values) => {
          const logits = Float32Array.from(values);
          expect(tokens(logits, 1, unequalSizes(logits.length, worldSize))).toEqual(everyRank(winners(logits, 1)));
        }),
        { numRuns: 60, seed: 4 },
      );
    });

    it('keep the first id where all is -Infinity, NaN or zero of either sign', () => {
      for (const value of [-Infinity, Infinity, NaN, 0, -0]) {
        const logits = new Float32Array(3 * 40).fill(value);
        expect(tokens(logits, 3, unequalSizes(40, worldSize))).toEqual(everyRank([0, 0, 0]));
      }
      const zeros = Float32Array.from({ length: 40 }, (_, id) => (id === 0 ? -1 : id % 2 === 0 ? 0 : -0));
      expect(tokens(zeros, 1, unequalSizes(40, worldSize))).toEqual(everyRank([1]));
    });

    it('count ids exactly beyond 2^24', () => {
      const logits = new Float32Array(40);
      logits[39] = 1;
      for (const vocabStart of [2 ** 24 - 20, 2 ** 24 + 1, 2 ** 31 - 41]) {
        expect(tokens(logits, 1, unequalSizes(40, worldSize), { vocabStart })).toEqual(everyRank([vocabStart + 39]));
      }
    });

    it('cut a padded vocabulary, the last of them with little or nothing', () => {
      for (const [vocabSize, multipleOf] of [
        [32001, 64],
        [65, 64],
        [1, 64],
        [9, 1],
      ]) {
        const whole = randomIntegers(2 * vocabSize, -9, 9, 5).map((x) => x - 20);
        const ranges = Array.from({ length: worldSize }, (_, rank) =>
          LmHead.shardRange(vocabSize, { rank, worldSize, multipleOf }),
        );
        const columns = ranges[0].end - ranges[0].begin;
        const actual = inAllRanks(worldSize, (group) => {
          const { begin, end } = ranges[group.rank];
          const padded = new Float32Array(2 * columns); // zeros, which would win
          for (const row of [0, 1]) {
            padded.set(whole.subarray(row * vocabSize + begin, row * vocabSize + end), row * columns);
          }
          const options = { vocabStart: begin, vocabSize: end - begin, group };
          return tf.tidy(() => Array.from(vocabParallelArgmax(tf.tensor2d(padded, [2, columns]), options).dataSync()));
        });
        expect(actual).toEqual(everyRank(winners(whole, 2)));
      }
    });

    it('take a shard without columns', () => {
      const sizes = [...unequalSizes(40, worldSize - 1), 0];
      const logits = randomIntegers(80, -3, 3, 6);
      for (const cut of [sizes, [0, ...sizes.slice(0, -1)]]) {
        expect(tokens(logits, 2, cut)).toEqual(everyRank(winners(logits, 2)));
        expect(tokens(logits, 2, cut, { columnMajor: true })).toEqual(everyRank(winners(logits, 2)));
      }
    });
  });

  it('keeps leading dimensions', () => {
    tf.tidy(() => {
      const logits = tf.tensor(randomFloats(24, 7), [2, 3, 4]);
      const shapes = inAllRanks(2, (group) => vocabParallelArgmax(logits, { vocabStart: 4 * group.rank, group }).shape);
      expect(shapes).toEqual([
        [2, 3],
        [2, 3],
      ]);
      const scalars = inAllRanks(2, (group) =>
        vocabParallelArgmax([1, group.rank], { vocabStart: 2 * group.rank, group }),
      );
      expect(scalars.map((token) => [token.shape, token.dtype, token.dataSync()[0]])).toEqual([
        [[], 'int32', 0],
        [[], 'int32', 0],
      ]);
    });
  });

  it('exchanges nothing with one rank, and with zero rows', () => {
    const allGather = () => {
      throw new Error('called');
    };
    tf.tidy(() => {
      const alone = { rank: 0, worldSize: 1, allGather };
      expect(vocabParallelArgmax([1, 3, 2], { group: alone }).dataSync()[0]).toBe(1);
      const two = { rank: 0, worldSize: 2, allGather };
      expect(vocabParallelArgmax(tf.zeros([0, 5]), { group: two }).shape).toEqual([0]);
    });
  });
});
