/** One test for each way that lmHeadTopK refuses its score options; after each, no tensor has leaked and the next call works. */
import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKOptions, ShardTransport } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';

/** What a test may use; made before and disposed after it, so that a leak shows. */
interface Fixture {
  /** [2, 3, 8]: 6 rows. */
  hidden: tf.Tensor3D;
  weight: tf.Tensor2D;
  /** Of 70 ids. */
  head: LmHead;
  biasedHead: LmHead;
  /** Ids 64 to 69 of 70. */
  shard: LmHead;
  disposed: tf.Tensor1D;
  disposedInt: tf.Tensor1D;
}

function makeFixture(): Fixture {
  const weight = tf.ones<tf.Rank.R2>([70, 8]);
  const disposed = tf.ones<tf.Rank.R1>([6]);
  const disposedInt = tf.ones<tf.Rank.R1>([3], 'int32');
  tf.dispose([disposed, disposedInt]);
  return {
    hidden: tf.ones([2, 3, 8]),
    weight,
    head: LmHead.dense(weight),
    biasedHead: LmHead.dense(weight, { bias: new Float32Array(70) }),
    shard: LmHead.shard(weight, { rank: 1, worldSize: 2 }),
    disposed,
    disposedInt,
  };
}

function disposeFixture(fixture: Fixture): void {
  for (const part of Object.values(fixture) as (tf.Tensor | LmHead)[]) if (!part.isDisposed) part.dispose();
}

/** Options as a program without types would give them. */
function untyped<T>(value: unknown): T {
  return value as T;
}

/** Two ranks, of which this one must not come to send anything. */
const group: ShardTransport = {
  rank: 1,
  worldSize: 2,
  allGather: () => {
    throw new Error('the ranks exchange something');
  },
};

const int = (shape: number[]) => tf.zeros(shape, 'int32');
const IDS_SHAPES = '[n], [6,n] or [2,3,n] (ids for all rows, or for each)';
const ROW_SHAPES = 'be a number or have shape [6] or [2,3] (one for each row)';
const BIAS_SHAPES = '[70], [6,70] or [2,3,70] (the vocabulary, for all rows or for each)';

type Fault = [what: string, message: string, options: (f: Fixture) => unknown];

// prettier-ignore
const BIAS: Fault[] = [
  ['a scalar bias', `'bias' must have shape ${BIAS_SHAPES}, but got shape []`, () => ({ bias: 1 })],
  ['a bias for fewer rows', `'bias' must have shape ${BIAS_SHAPES}, but got shape [2,70]`, () => ({ bias: tf.ones([2, 70]) })],
  ['a bias for rows in another order', `'bias' must have shape ${BIAS_SHAPES}, but got shape [3,2,70]`, () => ({ bias: tf.ones([3, 2, 70]) })],
  ['a bias of another vocabulary', `'bias' must have shape ${BIAS_SHAPES}, but got shape [6,69]`, () => ({ bias: tf.ones([6, 69]) })],
  ['a bias with the vocabulary first', `'bias' must have shape ${BIAS_SHAPES}, but got shape [70,6]`, () => ({ bias: tf.ones([70, 6]) })],
  ['an int32 bias', "'bias' must have dtype float32, but got dtype int32", () => ({ bias: int([6, 70]) })],
  ['a disposed bias', "'bias' must be a tensor that exists, but got one that has been disposed", (f) => ({ bias: f.disposed })],
];

// prettier-ignore
const SOFT_CAP_AND_SCALE: Fault[] = [
  ['a softCap of 0', "'softCap' must be above 0, but got 0", () => ({ softCap: 0 })],
  ['a softCap below 0', "'softCap' must be above 0, but got -30", () => ({ softCap: -30 })],
  ['a NaN softCap', "'softCap' must be above 0, but got NaN", () => ({ softCap: NaN })],
  ['a softCap that underflows', "'softCap' must be above 0, but got 1e-46", () => ({ softCap: 1e-46 })],
  ['a softCap of 0 in one row', "'softCap' must be above 0, but got 0", () => ({ softCap: [1, 2, 3, 0, 5, 6] })],
  ['a softCap of 0 in rows of rows', "'softCap' must be above 0, but got 0", () => ({ softCap: [[1, 2, 3], [4, 5, 0]] })],
  ['a NaN softCap in a Float32Array', "'softCap' must be above 0, but got NaN", () => ({ softCap: Float32Array.of(1, 2, NaN, 4, 5, 6) })],
  ['a softCap for other rows', `'softCap' must ${ROW_SHAPES}, but got shape [5]`, () => ({ softCap: tf.ones([5]) })],
  ['a softCap a row and a column', `'softCap' must ${ROW_SHAPES}, but got shape [6,1]`, () => ({ softCap: tf.ones([6, 1]) })],
  ['an int32 softCap', "'softCap' must have dtype float32, but got dtype int32", () => ({ softCap: int([6]) })],
  ['a softCap that is text', "'softCap' must ", () => ({ softCap: '30' })],
  ['a softCap that is null', "'softCap' must ", () => ({ softCap: null })],
  ['a disposed softCap', "'softCap' must be a tensor that exists, but got one that has been disposed", (f) => ({ softCap: f.disposed })],
  ['a NaN scale', "'scale' must be finite, but got NaN", () => ({ scale: NaN })],
  ['an infinite scale', "'scale' must be finite, but got -Infinity", () => ({ scale: -Infinity })],
  ['a scale that overflows', "'scale' must be finite, but got 1e+39", () => ({ scale: 1e39 })],
  ['an infinite scale in one row', "'scale' must be finite, but got Infinity", () => ({ scale: [1, 1, 1, 1, 1, Infinity] })],
  ['a scale for other rows', `'scale' must ${ROW_SHAPES}, but got shape [2]`, () => ({ scale: [1, 2] })],
  ['a scale of another rank', `'scale' must ${ROW_SHAPES}, but got shape [3,2]`, () => ({ scale: tf.ones([3, 2]) })],
  ['a scale an id', `'scale' must ${ROW_SHAPES}, but got shape [6,70]`, () => ({ scale: tf.ones([6, 70]) })],
  ['an int32 scale', "'scale' must have dtype float32, but got dtype int32", () => ({ scale: new Int32Array(6) })],
  ['a bool scale', "'scale' must ", () => ({ scale: true })],
  ['a ragged scale', "'scale' must be a tensor or numbers that make one, but got nested arrays of unequal lengths", () => ({ scale: [[1, 2, 3], [4]] })],
  ['a disposed scale', "'scale' must be a tensor that exists, but got one that has been disposed", (f) => ({ scale: f.disposed })],
];

// prettier-ignore
const ADJUST: Fault[] = [
  ['an adjust that is an array', "'adjust' must be an object, but got an array of length 2", () => ({ adjust: [1, 2] })],
  ['an adjust that is null', "'adjust' must be an object, but got null", () => ({ adjust: null })],
  ['an adjust that is a tensor', "'adjust' must be an object, but got a int32 tensor of shape [3]", () => ({ adjust: int([3]) })],
  ['an unknown key', "'adjust' must have no other keys than ids, add, repetition, but got 'presence'", () => ({ adjust: { ids: [1], presence: 1 } })],
  ['an adjust that says nothing', "'adjust' must have add, repetition or both, but got neither", () => ({ adjust: { ids: [1] } })],
  ['an adjust without ids', "'adjust.ids' must ", () => ({ adjust: { add: 1 } })],
  ['an id below -1', "'adjust.ids' must be -1 or an id in [0, 70), but got -2", () => ({ adjust: { ids: [3, -2], add: 1 } })],
  ['an id behind the vocabulary', "'adjust.ids' must be -1 or an id in [0, 70), but got 70", () => ({ adjust: { ids: [3, 70], add: 1 } })],
  ['an id behind the vocabulary in a tensor', "'adjust.ids' must be -1 or an id in [0, 70), but got 70", () => ({ adjust: { ids: tf.fill([6, 2], 70, 'int32'), add: 1 } })],
  ['a fractional id', "'adjust.ids' must be -1 or an id in [0, 70), but got 0.5", () => ({ adjust: { ids: [3, 0.5], add: 1 } })],
  ['a NaN id', "'adjust.ids' must be -1 or an id in [0, 70), but got NaN", () => ({ adjust: { ids: [NaN], add: 1 } })],
  ['an id beyond int32', "'adjust.ids' must be -1 or an id in [0, 70), but got 4294967296", () => ({ adjust: { ids: [2 ** 32], add: 1 } })],
  ['one id', `'adjust.ids' must have shape ${IDS_SHAPES}, but got shape []`, () => ({ adjust: { ids: 3, add: 1 } })],
  ['lists for fewer rows', `'adjust.ids' must have shape ${IDS_SHAPES}, but got shape [2,3]`, () => ({ adjust: { ids: [[1, 2, 3], [4, 5, 6]], add: 1 } })],
  ['lists for rows in another order', `'adjust.ids' must have shape ${IDS_SHAPES}, but got shape [3,2,4]`, () => ({ adjust: { ids: int([3, 2, 4]), add: 1 } })],
  ['empty lists for fewer rows', `'adjust.ids' must have shape ${IDS_SHAPES}, but got shape [5,0]`, () => ({ adjust: { ids: int([5, 0]), add: 1 } })],
  ['lists of unequal lengths', "'adjust.ids' must be a tensor or numbers that make one, but got ", () => ({ adjust: { ids: [[1, 2], [3]], add: 1 } })],
  ['float32 ids', "'adjust.ids' must have dtype int32, but got dtype float32", () => ({ adjust: { ids: tf.zeros([3]), add: 1 } })],
  ['ids in a Float32Array', "'adjust.ids' must have dtype int32, but got dtype float32", () => ({ adjust: { ids: Float32Array.of(1), add: 1 } })],
  ['disposed ids', "'adjust.ids' must be a tensor that exists, but got one that has been disposed", (f) => ({ adjust: { ids: f.disposedInt, add: 1 } })],
  ['an add for other ids', "'adjust.add' must be a number or have shape [3], that of adjust.ids, but got shape [2]", () => ({ adjust: { ids: [1, 2, 3], add: [1, 2] } })],
  ['an add for one row of lists', "'adjust.add' must be a number or have shape [6,3], that of adjust.ids, but got shape [3]", () => ({ adjust: { ids: int([6, 3]), add: [1, 2, 3] } })],
  ['an add of other leading dimensions', "'adjust.add' must be a number or have shape [6,3], that of adjust.ids, but got shape [2,3,3]", () => ({ adjust: { ids: int([6, 3]), add: tf.ones([2, 3, 3]) } })],
  ['an int32 add', "'adjust.add' must have dtype float32, but got dtype int32", () => ({ adjust: { ids: [1, 2, 3], add: int([3]) } })],
  ['a disposed add', "'adjust.add' must be a tensor that exists, but got one that has been disposed", (f) => ({ adjust: { ids: [1], add: f.disposed } })],
  ['a NaN add', "'adjust.add' must ", () => ({ adjust: { ids: [1, 2], add: NaN } })],
  ['a NaN among adds', "'adjust.add' must ", () => ({ adjust: { ids: [1, 2], add: [0, NaN] } })],
  ['a repetition for other ids', "'adjust.repetition' must be a number or have shape [3], that of adjust.ids, but got shape [1,3]", () => ({ adjust: { ids: [1, 2, 3], repetition: [[1, 2, 3]] } })],
  ['a repetition of 0', "'adjust.repetition' must be above 0 and finite, but got 0", () => ({ adjust: { ids: [1, 2], repetition: 0 } })],
  ['a repetition below 0 for one id', "'adjust.repetition' must be above 0 and finite, but got -1", () => ({ adjust: { ids: [1, 2], repetition: [1, -1] } })],
  ['a NaN repetition', "'adjust.repetition' must be above 0 and finite, but got NaN", () => ({ adjust: { ids: [1, 2], repetition: Float32Array.of(1, NaN) } })],
  ['an infinite repetition', "'adjust.repetition' must be above 0 and finite, but got Infinity", () => ({ adjust: { ids: [1, 2], add: 1, repetition: Infinity } })],
  ['a repetition of 0 without ids', "'adjust.repetition' must be above 0 and finite, but got 0", () => ({ adjust: { ids: [], repetition: 0 } })],
  ['an int32 repetition', "'adjust.repetition' must have dtype float32, but got dtype int32", () => ({ adjust: { ids: [1], repetition: Int32Array.of(2) } })],
  ['a disposed repetition', "'adjust.repetition' must be a tensor that exists, but got one that has been disposed", (f) => ({ adjust: { ids: [1], repetition: f.disposed } })],
];

const MASK_SHAPES = '[3], [6,3] or [2,3,3] (32 ids a word, 70 ids)';

// prettier-ignore
const MASK: Fault[] = [
  ['too few words', `'mask' must have shape ${MASK_SHAPES}, but got shape [2]`, () => ({ mask: int([2]) })],
  ['too many words', `'mask' must have shape ${MASK_SHAPES}, but got shape [4]`, () => ({ mask: int([4]) })],
  ['a mask an id', `'mask' must have shape ${MASK_SHAPES}, but got shape [70]`, () => ({ mask: int([70]) })],
  ['no words', `'mask' must have shape ${MASK_SHAPES}, but got shape [0]`, () => ({ mask: int([0]) })],
  ['one word', `'mask' must have shape ${MASK_SHAPES}, but got shape []`, () => ({ mask: 1 })],
  ['words for fewer rows', `'mask' must have shape ${MASK_SHAPES}, but got shape [2,3]`, () => ({ mask: int([2, 3]) })],
  ['words for rows in another order', `'mask' must have shape ${MASK_SHAPES}, but got shape [3,2,3]`, () => ({ mask: int([3, 2, 3]) })],
  ['a float32 mask', "'mask' must have dtype int32, but got dtype float32", () => ({ mask: tf.zeros([3]) })],
  ['a bool mask', "'mask' must ", () => ({ mask: tf.zeros([6, 70], 'bool') })],
  ['a mask that is null', "'mask' must ", () => ({ mask: null })],
  ['a disposed mask', "'mask' must be a tensor that exists, but got one that has been disposed", (f) => ({ mask: f.disposedInt })],
];

// prettier-ignore
const OF_SHARDS: [what: string, message: string, call: (f: Fixture) => unknown][] = [
  ['a mask of a shard alone', "'mask' must have shape [3], [6,3] or [2,3,3] (32 ids a word, 70 ids), but got shape [1]", (f) => lmHeadTopK(f.hidden, f.shard, 1, { mask: int([1]), group })],
  ['a mask of a shard alone, without a group', "'mask' must have shape [3], [6,3] or [2,3,3] (32 ids a word, 70 ids), but got shape [1]", (f) => lmHeadTopK(f.hidden, f.shard, 1, { mask: int([1]) })],
  ['too long a mask of a shard', "'mask' must have shape [3], [6,3] or [2,3,3] (32 ids a word, 70 ids), but got shape [4]", (f) => lmHeadTopK(f.hidden, f.shard, 1, { mask: int([4]), group })],
  ['an id behind the whole vocabulary of a shard', "'adjust.ids' must be -1 or an id in [0, 70), but got 70", (f) => lmHeadTopK(f.hidden, f.shard, 1, { adjust: { ids: [70], add: 1 }, group })],
  ['a bias of the whole vocabulary of a shard', "'bias' must have shape [6], [6,6] or [2,3,6] (the vocabulary, for all rows or for each), but got shape [70]", (f) => lmHeadTopK(f.hidden, f.shard, 1, { bias: tf.ones([70]), group })],
  ['too few words with vocabStart', "'mask' must have shape [n], [6,n] or [2,3,n], n at least 4 (32 ids a word, up to id 97), but got shape [3]", (f) => lmHeadTopK(f.hidden, f.head, 1, { mask: int([3]), vocabStart: 28 })],
  ['too few words with a group', "'mask' must have shape [n], [6,n] or [2,3,n], n at least 3 (32 ids a word, up to id 69), but got shape [6,2]", (f) => lmHeadTopK(f.hidden, f.weight, 1, { mask: int([6, 2]), group })],
  ['an id that none can be, with vocabStart', "'adjust.ids' must be -1 or an id in [0, 2147483647), but got 2147483647", (f) => lmHeadTopK(f.hidden, f.head, 1, { adjust: { ids: Int32Array.of(2 ** 31 - 1), add: 1 }, vocabStart: 1 })],
  ['a bias with a head that has one', "'bias' must be left out with an LmHead that has a bias of its own, but got a second one", (f) => lmHeadTopK(f.hidden, f.biasedHead, 1, { bias: tf.ones([6, 70]) })],
  ['options of a vector for more rows', "'softCap' must be a number or have shape [1] (one for each row), but got shape [2]", (f) => lmHeadTopK(tf.ones([8]), f.head, 1, { softCap: [1, 2] })],
];

describeEachBackend('the score options of lmHeadTopK', () => {
  let fixture: Fixture;
  beforeEach(() => {
    fixture = makeFixture();
  });
  afterEach(() => disposeFixture(fixture));

  function expectRefusal(message: string, call: () => unknown): void {
    const before = tf.memory().numTensors;
    tf.tidy(() => expect(call).toThrow(`Error in lmHeadTopK: argument ${message}`));
    expect(tf.memory().numTensors).toBe(before);
    tf.tidy(() => {
      const options = { softCap: 30, adjust: { ids: [3], add: 1 }, mask: [-1, -1, -1] };
      expect(lmHeadTopK([1, 1, 1, 1, 1, 1, 1, 1], fixture.head, 2, options).indices.arraySync()).toEqual([3, 0]);
    });
  }

  describe.each([
    ['bias', BIAS],
    ['softCap and scale', SOFT_CAP_AND_SCALE],
    ['adjust', ADJUST],
    ['mask', MASK],
  ])('%s', (_name, faults) => {
    it.each(faults)('refuse %s', (_what, message, options) => {
      expectRefusal(message, () =>
        lmHeadTopK(fixture.hidden, fixture.head, 1, untyped<LmHeadTopKOptions>(options(fixture))),
      );
    });

    it.each(faults)('refuse %s before ranks exchange anything', (_what, message, options) => {
      const call = () => {
        const whole = LmHead.shard(fixture.weight, { rank: 0, worldSize: 1 });
        try {
          return lmHeadTopK(fixture.hidden, whole, 1, { ...untyped<LmHeadTopKOptions>(options(fixture)), group });
        } finally {
          whole.dispose();
        }
      };
      expectRefusal(message, call);
    });
  });

  it.each(OF_SHARDS)('refuse %s', (_what, message, call) => expectRefusal(message, () => call(fixture)));

  it('are refused where nothing is asked for, too', () => {
    tf.tidy(() => {
      const options: LmHeadTopKOptions = { scale: NaN };
      expect(() => lmHeadTopK(fixture.hidden, fixture.head, 0, options)).toThrow("argument 'scale' must be finite");
      const none = tf.zeros([0, 8]);
      expect(() => lmHeadTopK(none, fixture.head, 1, options)).toThrow("argument 'scale' must be finite");
    });
  });

  it('are not refused for what tensors hold, which is not read', () => {
    tf.tidy(() => {
      const [softCap, scale] = [tf.scalar(-1), tf.scalar(NaN)];
      const adjust = { ids: [3], add: tf.tensor1d([NaN]), repetition: tf.tensor1d([0]) };
      expect(() => lmHeadTopK(fixture.hidden, fixture.head, 1, { softCap, scale, adjust })).not.toThrow();
    });
  });
});
