import * as fc from 'fast-check';
import { EMPTY_ID, EMPTY_KEY, isBetter, orderKey, TopK } from '../../src/common/order';
import { compareScores, rankIds } from '../reference';

const scores = fc.oneof(
  fc.float(),
  fc.constantFrom(NaN, Infinity, -Infinity, 0, -0, 1, -1, 1.401298464324817e-45, 3.4028234663852886e38),
);

function topK(values: number[], k: number): number[] {
  const heap = new TopK(k);
  values.forEach((value, id) => heap.offer(id, value));
  const [outValues, ids] = [new Float32Array(k), new Int32Array(k)];
  heap.drain(outValues, ids, 0);
  ids.forEach((id, j) => expect(outValues[j]).toBe(values[id]));
  return [...ids];
}

describe('the order', () => {
  it('has keys that compare as the scores rank', () => {
    fc.assert(
      fc.property(scores, scores, (a, b) => {
        expect(Math.sign(orderKey(b) - orderKey(a)) + 0).toBe(compareScores(a, b) + 0);
      }),
      { numRuns: 2000, seed: 1 },
    );
  });

  it('has int32 keys above that of an empty slice', () => {
    fc.assert(
      fc.property(scores, (a) => {
        expect(orderKey(a)).toBe(orderKey(a) | 0);
        expect(isBetter(orderKey(a), 0, EMPTY_KEY, EMPTY_ID)).toBe(true);
      }),
      { seed: 2 },
    );
    expect(orderKey(NaN)).toBe(2147483647);
    expect(orderKey(-0)).toBe(0);
  });

  it('gives a tie to the lower id', () => {
    expect(isBetter(5, 1, 5, 2)).toBe(true);
    expect(isBetter(5, 2, 5, 1)).toBe(false);
    expect(isBetter(5, 1, 5, 1)).toBe(false);
  });
});

describe('TopK', () => {
  it('keeps what a stable sort puts first', () => {
    fc.assert(
      fc.property(fc.array(scores, { maxLength: 80 }), fc.nat(), (values, n) => {
        const k = n % (values.length + 1);
        expect(topK(values, k)).toEqual(rankIds(values, k));
      }),
      { numRuns: 1000, seed: 3 },
    );
  });

  it('does not depend on the order of the offers', () => {
    const values = Array.from({ length: 50 }, (_, id) => [3, 1, NaN, 2, -0, 0][id % 6]);
    const heap = new TopK(20);
    for (let id = values.length - 1; id >= 0; id--) heap.offer(id, values[id]);
    const ids = new Int32Array(20);
    heap.drain(new Float32Array(20), ids, 0);
    expect([...ids]).toEqual(rankIds(values, 20));
  });

  it('keeps 2,048 of 248,320 quickly', () => {
    const values = Array.from({ length: 248320 }, (_, id) => (id * 7919) % 10007); // rising runs, many ties
    expect(topK(values, 2048)).toEqual(rankIds(values, 2048));
  });
});
