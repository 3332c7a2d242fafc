/** One test for each way that scores, log-probabilities and draws are refused; after each, no tensor has leaked. */
import * as tf from '@tensorflow/tfjs-core';
import type { ShardTransport } from 'tfjs-lm-head';
import { LmHead, lmHeadLogProbs, lmHeadSample, lmHeadScores, lmHeadVerify, TensorParallelGroup } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';

/** What a test may use; made before and disposed after it, so that a leak shows. */
interface Fixture {
  /** [2, 3, 8]: 6 rows, or 2 sequences with 2 tokens of draft. */
  hidden: tf.Tensor3D;
  weight: tf.Tensor2D;
  /** Of 70 ids. */
  head: LmHead;
  /** Ids 64 to 69 of 70. */
  shard: LmHead;
  ids: tf.Tensor3D;
  draft: tf.Tensor2D;
  disposedInt: tf.Tensor2D;
  disposed: tf.Tensor1D;
  disposedHead: LmHead;
}

function makeFixture(): Fixture {
  const weight = tf.ones<tf.Rank.R2>([70, 8]);
  const [disposedInt, disposed, disposedHead] = [int([6, 2]) as tf.Tensor2D, tf.ones([6]), LmHead.dense(weight)];
  [disposedInt, disposed, disposedHead].forEach((part) => part.dispose());
  return {
    hidden: tf.ones([2, 3, 8]),
    weight,
    head: LmHead.dense(weight),
    shard: LmHead.shard(weight, { rank: 1, worldSize: 2 }),
    ids: int([2, 3, 4]) as tf.Tensor3D,
    draft: int([2, 2]) as tf.Tensor2D,
    disposedInt,
    disposed: disposed as tf.Tensor1D,
    disposedHead,
  };
}

function disposeFixture(fixture: Fixture): void {
  for (const part of Object.values(fixture) as (tf.Tensor | LmHead)[]) if (!part.isDisposed) part.dispose();
}

/** An argument as a program without types would give it. */
function untyped<T>(value: unknown): T {
  return value as T;
}

const int = (shape: number[]) => tf.zeros(shape, 'int32');

/** A transport of two ranks whose other rank says the same, but for what `change` does to it, and holds ids from 1000 on. */
function twin(change: (theirs: number[], details: number) => void, details: number): ShardTransport {
  return {
    rank: 0,
    worldSize: 2,
    allGather: (mine) => {
      const theirs = Array.from(mine);
      theirs[2 + details] = 1000;
      change(theirs, details);
      return Int32Array.from([...mine, ...theirs]);
    },
  };
}

const broken: ShardTransport = {
  rank: 0,
  worldSize: 2,
  allGather: () => {
    throw new Error('the cable is out');
  },
};

type Fault = [what: string, message: string, call: (f: Fixture) => unknown];

type OfIds = typeof lmHeadScores | typeof lmHeadLogProbs;
const IDS_SHAPES = '[6,n] or [2,3,n] (ids for each row)';

// prettier-ignore
const idFaults = (op: OfIds): Fault[] => [
  ['hidden of another size', "'hidden' must have inner size 8 (the head's hiddenSize), but got shape [6,7]", (f) => op(tf.ones([6, 7]), f.head, int([6, 1]))],
  ['an int32 hidden', "'hidden' must have dtype float32, but got dtype int32", (f) => op(int([6, 8]), f.head, int([6, 1]))],
  ['a disposed head', "'head' must be a head that exists, but got one that has been disposed", (f) => op(f.hidden, f.disposedHead, f.ids)],
  ['float32 ids', "'ids' must have dtype int32, but got dtype float32", (f) => op(f.hidden, f.head, tf.zeros([6, 2]))],
  ['disposed ids', "'ids' must be a tensor that exists, but got one that has been disposed", (f) => op(f.hidden, f.head, f.disposedInt)],
  ['scalar ids', `'ids' must have shape ${IDS_SHAPES}, but got shape []`, (f) => op(f.hidden, f.head, 3)],
  ['ids for all rows', `'ids' must have shape ${IDS_SHAPES}, but got shape [6]`, (f) => op(f.hidden, f.head, int([6]))],
  ['ids of too few rows', `'ids' must have shape ${IDS_SHAPES}, but got shape [5,2]`, (f) => op(f.hidden, f.head, int([5, 2]))],
  ['ids of rows in another order', `'ids' must have shape ${IDS_SHAPES}, but got shape [3,2,1]`, (f) => op(f.hidden, f.head, int([3, 2, 1]))],
  ['ids of two rows where there is one', "'ids' must have shape [n] or [1,n] (ids for each row), but got shape [2,1]", (f) => op(tf.ones([8]), f.head, [[1], [2]])],
  ['an id of -1', "'ids' must be an id in [0, 70), but got -1", (f) => op(tf.ones([8]), f.head, [3, -1])],
  ['an id over the vocabulary', "'ids' must be an id in [0, 70), but got 70", (f) => op(tf.ones([8]), f.head, tf.tensor1d([69, 70], 'int32'))],
  ['an id over the whole of a shard', "'ids' must be an id in [0, 70), but got 70", (f) => op(tf.ones([8]), f.shard, [70])],
  ['an id that is no id', "'ids' must be an id in [0, 2147483647), but got 2147483647", (f) => op(tf.ones([8]), f.weight, [2147483647], { vocabStart: 5 })],
  ['a fraction of an id', "'ids' must be an id in [0, 70), but got 1.5", (f) => op(tf.ones([8]), f.head, [1.5])],
  ['an unknown option', "'options' must have no other keys than bias, softCap, scale, adjust, mask, transposeWeight, vocabStart, group, but got 'k'", (f) => op(f.hidden, f.head, f.ids, untyped({ k: 1 }))],
  ['a mask that is too short', "'mask' must have shape [3], [6,3] or [2,3,3] (32 ids a word, 70 ids), but got shape [2]", (f) => op(f.hidden, f.head, f.ids, { mask: [1, 1] })],
  ['a transport that fails', "", (f) => op(f.hidden, f.head, f.ids, { group: broken })],
  ['the same ids in two ranks', "'vocabStart' must give every rank ids of its own, but got [0, 70) in rank 0 and [69, 139) in rank 1", (f) => op(f.hidden, f.head, f.ids, { group: twin((theirs, details) => (theirs[2 + details] = 69), op === lmHeadScores ? 1 : 2) })],
  ['an id that no rank holds', "'ids' must hold ids of the vocabulary, but got 999, which no rank holds", (f) => op(tf.ones([8]), f.weight, [3, 999], { group: twin(() => undefined, op === lmHeadScores ? 1 : 2) })],
];

// prettier-ignore
const SCORES: Fault[] = [
  ...idFaults(lmHeadScores),
  ['a rank with other ids', "'group' must see the same call from every rank (lmHeadScores, 6 rows, 4 ids a row), but got lmHeadScores, 6 rows, 5 ids a row from rank 1", (f) => lmHeadScores(f.hidden, f.head, f.ids, { group: twin((theirs) => theirs[2]++, 1) })],
  ['a rank with another op', "'group' must see the same call from every rank (lmHeadScores, 6 rows, 4 ids a row), but got lmHeadLogProbs, 6 rows, 4 ids a row, ranks from rank 1", (f) => lmHeadScores(f.hidden, f.head, f.ids, { group: twin((theirs) => theirs[0]++, 1) })],
];

// prettier-ignore
const LOG_PROBS: Fault[] = [
  ...idFaults(lmHeadLogProbs),
  ['too many ids', "'ids' must have at most 2048 ids a row, but got 2049", (f) => lmHeadLogProbs(f.hidden, f.head, int([6, 2049]))],
  ['a rank that is further on', "'group' must see the same call from every rank (lmHeadLogProbs, 6 rows, 4 ids a row, scores), but got lmHeadLogProbs, 6 rows, 4 ids a row, ranks from rank 1", (f) => lmHeadLogProbs(f.hidden, f.head, f.ids, { group: twin((theirs) => theirs[3]++, 2) })],
];

type Draw = (f: Fixture, options: unknown) => unknown;
const sample: Draw = (f, options) => lmHeadSample(f.hidden, f.head, untyped(options));
const verify: Draw = (f, options) => lmHeadVerify(f.hidden, f.head, f.draft, untyped(options));
const ROW_SHAPES = 'be a number or have shape [6] or [2,3] (one for each row)';
const TEMPERATURE = "'temperature' must be 0 or a finite number of at least 0.000001, but got";
const KEYS = 'bias, softCap, scale, adjust, mask, transposeWeight, vocabStart, group, temperature, seed, step, rowIds';

// prettier-ignore
const drawFaults = (op: string, draw: Draw): Fault[] => [
  ['no options', "'options' must be an object, but got undefined", (f) => draw(f, undefined)],
  ['options of null', "'options' must be an object, but got null", (f) => draw(f, null)],
  ['an unknown option', `'options' must have no other keys than ${KEYS}, but got 'topk'`, (f) => draw(f, { seed: 1, topk: 3 })],
  ['no seed', "'seed' must be an integer in [0, 9007199254740991], but got undefined", (f) => draw(f, {})],
  ['a negative seed', "'seed' must be an integer in [0, 9007199254740991], but got -1", (f) => draw(f, { seed: -1 })],
  ['a seed of 2^53', "'seed' must be an integer in [0, 9007199254740991], but got 9007199254740992", (f) => draw(f, { seed: 2 ** 53 })],
  ['half a seed', "'seed' must be an integer in [0, 9007199254740991], but got 0.5", (f) => draw(f, { seed: 0.5 })],
  ['a seed that is a tensor', "'seed' must be an integer in [0, 9007199254740991], but got a int32 tensor of shape [1]", (f) => draw(f, { seed: int([1]) })],
  ['half a step', "'step' must be an integer in [0, ", (f) => draw(f, { seed: 1, step: 0.5 })],
  ['a negative step', "'step' must be an integer in [0, ", (f) => draw(f, { seed: 1, step: -1 })],
  ['a step of 2^53', "'step' must be an integer in [0, ", (f) => draw(f, { seed: 1, step: 2 ** 53 })],
  ['a negative temperature', `${TEMPERATURE} -1`, (f) => draw(f, { seed: 1, temperature: -1 })],
  ['a temperature that is too small', `${TEMPERATURE} 9e-7`, (f) => draw(f, { seed: 1, temperature: 9e-7 })],
  ['an infinite temperature', `${TEMPERATURE} Infinity`, (f) => draw(f, { seed: 1, temperature: Infinity })],
  ['a temperature of NaN among others', `${TEMPERATURE} NaN`, (f) => draw(f, { seed: 1, temperature: [1, 2, NaN, 1, 0, 1] })],
  ['an int32 temperature', "'temperature' must have dtype float32, but got dtype int32", (f) => draw(f, { seed: 1, temperature: int([6]) })],
  ['a disposed temperature', "'temperature' must be a tensor that exists, but got one that has been disposed", (f) => draw(f, { seed: 1, temperature: f.disposed })],
  ['temperatures of too few rows', `'temperature' must ${ROW_SHAPES}, but got shape [2]`, (f) => draw(f, { seed: 1, temperature: [1, 1] })],
  ['float32 rowIds', "'rowIds' must have dtype int32, but got dtype float32", (f) => draw(f, { seed: 1, rowIds: tf.ones([6]) })],
  ['negative rowIds', "'rowIds' must be an integer in [0, 2147483647], but got -1", (f) => draw(f, { seed: 1, rowIds: op === 'lmHeadVerify' ? [0, -1] : [0, 1, 2, 3, 4, -1] })],
  ['a scale of NaN', "'scale' must be finite, but got NaN", (f) => draw(f, { seed: 1, scale: NaN })],
  ['a rank with another seed', `'group' must see the same call from every rank (${op}, 6 rows, seed 4294967297, step 7), but got ${op}, 6 rows, seed 4294967298, step 7 from rank 1`, (f) => draw(f, { seed: 2 ** 32 + 1, step: 7, group: twin((theirs) => theirs[2]++, 4) })],
  ['a rank with another step', `'group' must see the same call from every rank (${op}, 6 rows, seed 4294967295, step 7), but got ${op}, 6 rows, seed 4294967295, step 4294967303 from rank 1`, (f) => draw(f, { seed: 2 ** 32 - 1, step: 7, group: twin((theirs) => theirs[5]++, 4) })],
];

// prettier-ignore
const SAMPLE: Fault[] = [
  ...drawFaults('lmHeadSample', sample),
  ['rowIds of too few rows', "'rowIds' must have shape [6] or [2,3] (one for each row), but got shape [3]", (f) => sample(f, { seed: 1, rowIds: [1, 2, 3] })],
  ['one row id for all', "'rowIds' must have shape [6] or [2,3] (one for each row), but got shape []", (f) => sample(f, { seed: 1, rowIds: 3 })],
];

// prettier-ignore
const VERIFY: Fault[] = [
  ...drawFaults('lmHeadVerify', verify),
  ['hidden without positions', "'hidden' must have shape [...,n+1,hiddenSize], but got shape [8]", (f) => lmHeadVerify(tf.ones([8]), f.head, [1], { seed: 1 })],
  ['hidden with no position', "'hidden' must have shape [...,n+1,hiddenSize], but got shape [2,0,8]", (f) => lmHeadVerify(tf.ones([2, 0, 8]), f.head, f.draft, { seed: 1 })],
  ['a draft that is too long', "'draft' must have 2 ids a sequence, one fewer than hidden has positions, but got shape [2,3]", (f) => lmHeadVerify(f.hidden, f.head, int([2, 3]), { seed: 1 })],
  ['a draft for fewer sequences', "'draft' must have shape [2,n] (ids for each row), but got shape [1,2]", (f) => lmHeadVerify(f.hidden, f.head, int([1, 2]), { seed: 1 })],
  ['a float32 draft', "'draft' must have dtype int32, but got dtype float32", (f) => lmHeadVerify(f.hidden, f.head, tf.ones([2, 2]), { seed: 1 })],
  ['a draft outside the vocabulary', "'draft' must be an id in [0, 70), but got 70", (f) => lmHeadVerify(f.hidden, f.head, [[1, 2], [3, 70]], { seed: 1 })],
  ['row ids of positions', "'rowIds' must have shape [2] (one for each row), but got shape [6]", (f) => verify(f, { seed: 1, rowIds: int([6]) })],
  ['a last step of 2^53', "'step' must be an integer in [0, 9007199254740989], but got 9007199254740990", (f) => verify(f, { seed: 1, step: 2 ** 53 - 2 })],
];

describeEachBackend('an op of the decoding loop', () => {
  let fixture: Fixture;
  beforeEach(() => {
    fixture = makeFixture();
  });
  afterEach(() => disposeFixture(fixture));

  /** Whether a call throws this, and leaves no tensor behind. */
  function expectRefusal(message: string, call: () => unknown): void {
    const before = tf.memory().numTensors;
    tf.tidy(() => expect(call).toThrow(message));
    expect(tf.memory().numTensors).toBe(before);
  }

  describe.each([
    ['lmHeadScores', SCORES],
    ['lmHeadLogProbs', LOG_PROBS],
    ['lmHeadSample', SAMPLE],
    ['lmHeadVerify', VERIFY],
  ])('%s refuses', (op, faults) => {
    it.each(faults)('%s', (_what, message, call) => {
      const expected =
        message === ''
          ? `Error in ${op}: allGather failed in rank 0: the cable is out`
          : `Error in ${op}: argument ${message}`;
      expectRefusal(expected, () => call(fixture));
    });
  });

  it('refuses a group over NCCL', () => {
    const group = Reflect.construct(TensorParallelGroup, [0, 2]) as TensorParallelGroup;
    const handle = jest.spyOn(group, 'handleFor').mockReturnValue(7);
    const { hidden, head, ids, draft } = fixture;
    for (const [op, call] of [
      ['lmHeadScores', () => lmHeadScores(hidden, head, ids, { group })],
      ['lmHeadLogProbs', () => lmHeadLogProbs(hidden, head, ids, { group })],
      ['lmHeadSample', () => lmHeadSample(hidden, head, { seed: 1, group })],
      ['lmHeadVerify', () => lmHeadVerify(hidden, head, draft, { seed: 1, group })],
    ] as const) {
      expectRefusal(
        `Error in ${op}: argument 'group' must be a transport of your own, {rank, worldSize, allGather}, `,
        call,
      );
    }
    handle.mockRestore();
  });

  it('does not read temperature and rowIds that are tensors', () => {
    tf.tidy(() => {
      const options = { seed: 1, temperature: tf.scalar(1e-9), rowIds: tf.fill([6], -3, 'int32') };
      expect(() => sample(fixture, options)).not.toThrow();
    });
  });

  it('says in a gradient that there is none', () => {
    const { hidden, weight, ids } = fixture;
    expect(() => tf.grad((h) => lmHeadScores(h, weight, ids))(hidden)).toThrow(
      'gradient function not found for LmHeadScores',
    );
    expect(() => tf.grad((h) => lmHeadSample(h, weight, { seed: 1 }).logProbs)(hidden)).toThrow(
      'gradient function not found',
    );
  });
});
