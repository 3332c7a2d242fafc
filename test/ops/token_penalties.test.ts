import * as tf from '@tensorflow/tfjs-core';
import type { TokenPenalties } from 'tfjs-lm-head';
import { lmHeadTopK, tokenPenalties } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { inject, random } from '../cases';

/** The numbers of a result, whose tensors are disposed. */
function taken(result: TokenPenalties) {
  const { ids, add, repetition } = result;
  expect([ids, add, repetition].map(({ dtype }) => dtype)).toEqual(['int32', 'float32', 'float32']);
  expect([add.shape, repetition.shape]).toEqual([ids.shape, ids.shape]);
  const numbers = { shape: ids.shape, ids: numbersOf(ids), add: numbersOf(add), repetition: numbersOf(repetition) };
  tf.dispose(result);
  return numbers;
}

function numbersOf(tensor: tf.Tensor): number[] {
  return Array.from(tensor.dataSync());
}

/** Options as a program without types would give them. */
function untyped<T>(value: unknown): T {
  return value as T;
}

describeEachBackend('tokenPenalties', () => {
  it('has each id of a history once, in the order of first occurrence', () => {
    expect(taken(tokenPenalties([5, 3, 5, 0, 3, 5], { repetition: 1.5, frequency: 2, presence: 0.5 }))).toEqual({
      shape: [3],
      ids: [5, 3, 0],
      add: [-6.5, -4.5, -2.5],
      repetition: [1.5, 1.5, 1.5],
    });
  });

  it('changes nothing by default', () => {
    expect(taken(tokenPenalties([7, 7, 8]))).toEqual({ shape: [2], ids: [7, 8], add: [0, 0], repetition: [1, 1] });
  });

  it('fills up short rows with id -1, add 0 and repetition 1', () => {
    expect(taken(tokenPenalties([[1, 2, 3], [], [4, 4]], { repetition: 2, presence: 1 }))).toEqual({
      shape: [3, 3],
      ids: [1, 2, 3, -1, -1, -1, 4, -1, -1],
      add: [-1, -1, -1, 0, 0, 0, -1, 0, 0],
      repetition: [2, 2, 2, 1, 1, 1, 2, 1, 1],
    });
  });

  it('takes options a row', () => {
    const options = { repetition: [2, 4], frequency: new Float32Array([0.5, 0.25]), presence: [-1, 1] };
    expect(taken(tokenPenalties([[9, 9], [9]], options))).toEqual({
      shape: [2, 1],
      ids: [9, 9],
      add: [0, -1.25],
      repetition: [2, 4],
    });
    const single = { shape: [1], ids: [6], add: [-3], repetition: [2] };
    expect(taken(tokenPenalties([6], { repetition: [2], frequency: [1], presence: [2] }))).toEqual(single);
  });

  it('adds a logit bias to ids of the history and to others, whose repetition stays 1', () => {
    const expected = {
      shape: [2, 3],
      ids: [8, 3, 11, 3, 11, -1],
      add: [-1, 4, -100, 3, -100, 0],
      repetition: [3, 3, 1, 3, 1, 1],
    };
    const tokens = [
      [8, 3],
      [3, 3],
    ];
    const options = { repetition: 3, frequency: 1 };
    const biases = [
      { 3: 5, 11: -100 },
      new Map([
        [3, 5],
        [11, -100],
      ]),
      Object.assign(Object.create(null) as Record<number, number>, { 11: -100, 3: 5 }),
    ];
    for (const logitBias of biases) expect(taken(tokenPenalties(tokens, { ...options, logitBias }))).toEqual(expected);
    expect(taken(tokenPenalties([], { logitBias: { 2: 1.5 } }))).toEqual({
      shape: [1],
      ids: [2],
      add: [1.5],
      repetition: [1],
    });
    expect(taken(tokenPenalties([4], { logitBias: {} })).ids).toEqual([4]);
  });

  it('reads an int32 tensor, in which -1 is no token', () => {
    const options = { repetition: 2, frequency: 1 };
    tf.tidy(() => {
      const rows = tf.tensor2d([-1, 5, 5, 6, -1, -1], [2, 3], 'int32');
      const nested = [[5, 5], [6]];
      expect(taken(tokenPenalties(rows, options))).toEqual(taken(tokenPenalties(nested, options)));
      const one = tf.tensor1d([5, -1, 6, 5, -1], 'int32');
      expect(taken(tokenPenalties(one, options))).toEqual(taken(tokenPenalties([5, 6, 5], options)));
      expect(one.isDisposed || rows.isDisposed).toBe(false);
    });
  });

  it('takes Int32Arrays', () => {
    expect(taken(tokenPenalties(Int32Array.of(4, 4, 2))).ids).toEqual([4, 2]);
    expect(taken(tokenPenalties([Int32Array.of(4, 4), [2]])).ids).toEqual([4, 2]);
  });

  it('gives empty lists for empty histories', () => {
    tf.tidy(() => {
      expect(taken(tokenPenalties([])).shape).toEqual([0]);
      expect(taken(tokenPenalties([[]])).shape).toEqual([1, 0]);
      expect(taken(tokenPenalties([[], []], { repetition: [2, 3] })).shape).toEqual([2, 0]);
      expect(taken(tokenPenalties(tf.tensor1d([], 'int32'))).shape).toEqual([0]);
      expect(taken(tokenPenalties(tf.zeros([0, 5], 'int32'))).shape).toEqual([0, 0]);
      expect(taken(tokenPenalties(tf.fill([2, 3], -1, 'int32'))).shape).toEqual([2, 0]);
    });
  });

  it('takes the smallest and the largest id', () => {
    const largest = 2 ** 31 - 2;
    const { ids, add } = taken(tokenPenalties([largest, 0], { logitBias: { [largest]: 1, 0: 2 } }));
    expect([ids, add]).toEqual([
      [largest, 0],
      [1, 2],
    ]);
  });

  it('counts as a slow count does', () => {
    const next = random(60);
    const rows = [200, 1, 57].map((n) => Array.from({ length: n }, () => Math.floor(40 * next())));
    const { ids, add } = taken(tokenPenalties(rows, { frequency: 1 }));
    const size = ids.length / rows.length;
    rows.forEach((history, row) => {
      const distinct = history.filter((id, i) => history.indexOf(id) === i);
      const own = ids.slice(row * size, (row + 1) * size);
      expect(own).toEqual([...distinct, ...new Array<number>(size - distinct.length).fill(-1)]);
      const counts = distinct.map((id) => history.filter((other) => other === id).length);
      expect(add.slice(row * size, row * size + distinct.length)).toEqual(counts.map((count) => -count));
    });
  });

  it('gives tensors that a tidy frees, and no others', () => {
    const before = tf.memory().numTensors;
    const result = tokenPenalties([[1], [2, 3]], { logitBias: { 9: 1 } });
    expect(tf.memory().numTensors).toBe(before + 3);
    tf.dispose(result);
    tf.tidy(() => tokenPenalties([1, 2]) && undefined);
    expect(tf.memory().numTensors).toBe(before);
  });

  it('is what lmHeadTopK takes', () => {
    const { hidden, head, dispose } = inject('float32', [
      [8, 6, -4, 1],
      [8, 6, -4, 1],
    ]);
    const options = { repetition: 2, frequency: 0.5, presence: 1, logitBias: { 3: 10 } };
    const { ids, values } = tf.tidy(() => {
      const adjust = tokenPenalties([[0, 2, 0], [1]], options);
      const result = lmHeadTopK(hidden, head, 4, { adjust });
      return { ids: result.indices.arraySync(), values: result.values.arraySync() };
    });
    expect(ids).toEqual([
      [3, 1, 0, 2],
      [3, 0, 1, 2],
    ]);
    expect(values).toEqual([
      [11, 6, 2, -9.5],
      [11, 8, 1.5, -4],
    ]);
    tf.tidy(() => {
      // one history for all rows
      const result = lmHeadTopK(hidden, head, 1, { adjust: tokenPenalties([0, 1], { presence: 20 }) });
      expect(result.indices.arraySync()).toEqual([[3], [3]]);
    });
    dispose();
  });

  const tokens = (value: unknown) => tokenPenalties(untyped(value));
  const options = (value: unknown) => tokenPenalties([[1], [2]], untyped(value));
  const ids = '[0, 2147483646]';
  const disposed = () => {
    const tensor = tf.tensor1d([1], 'int32');
    tensor.dispose();
    return tensor;
  };

  // prettier-ignore
  it.each<[what: string, message: string, call: () => unknown]>([
    ['a negative id', `'tokens' must hold integers in ${ids}, but got -1`, () => tokens([3, -1])],
    ['a negative id in a row', `'tokens' must hold integers in ${ids}, but got -1`, () => tokens([[3], Int32Array.of(-1)])],
    ['a fractional id', `'tokens' must hold integers in ${ids}, but got 0.5`, () => tokens([0.5])],
    ['a NaN id', `'tokens' must hold integers in ${ids}, but got NaN`, () => tokens([[NaN]])],
    ['an id that is text', `'tokens' must hold integers in ${ids}, but got '3'`, () => tokens(['3'])],
    ['a hole in a history', `'tokens' must hold integers in ${ids}, but got undefined`, () => tokens([[1, , 2]])], // eslint-disable-line no-sparse-arrays
    ['an id that is too large', `'tokens' must hold integers in ${ids}, but got 2147483647`, () => tokens([2 ** 31 - 1])],
    ['histories three deep', `'tokens' must hold integers in ${ids}, but got an array of length 1`, () => tokens([[[1]]])],
    ['an id among rows', "'tokens' must have an array in each row if it has one in any, but got 2", () => tokens([[1], 2])],
    ['a hole among rows', "'tokens' must have an array in each row if it has one in any, but got undefined", () => tokens([[1], undefined])],
    ['no tokens', "'tokens' must be an array of ids or of such arrays, or an int32 tensor, but got undefined", () => tokens(undefined)],
    ['a single id', "'tokens' must be an array of ids or of such arrays, or an int32 tensor, but got 3", () => tokens(3)],
    ['a Float32Array', "'tokens' must be an array of ids or of such arrays, or an int32 tensor, but got a value of type Float32Array", () => tokens(Float32Array.of(1))],
    ['a float32 tensor', "'tokens' must have dtype int32, but got dtype float32", () => tokens(tf.ones([3]))],
    ['a scalar', "'tokens' must have shape [n] or [rows, n], but got shape []", () => tokens(tf.scalar(1, 'int32'))],
    ['a tensor of rank 3', "'tokens' must have shape [n] or [rows, n], but got shape [1,2,3]", () => tokens(tf.ones([1, 2, 3], 'int32'))],
    ['a disposed tensor', "'tokens' must be a tensor that exists, but got one that has been disposed", () => tokens(disposed())],
    ['a tensor with -2', `'tokens' must hold -1 or ids in ${ids}, but got -2`, () => tokens(tf.tensor1d([1, -2], 'int32'))],
    ['a tensor with 2^31 - 1', `'tokens' must hold -1 or ids in ${ids}, but got 2147483647`, () => tokens(tf.tensor1d([2 ** 31 - 1], 'int32'))],
    ['a repetition of 0', "'repetition' must be above 0 and finite, but got 0", () => options({ repetition: 0 })],
    ['a repetition that underflows', "'repetition' must be above 0 and finite, but got 1e-46", () => options({ repetition: 1e-46 })],
    ['an infinite repetition', "'repetition' must be above 0 and finite, but got Infinity", () => options({ repetition: Infinity })],
    ['a NaN repetition in a row', "'repetition' must be above 0 and finite, but got NaN", () => options({ repetition: [1, NaN] })],
    ['a repetition that is text', "'repetition' must be above 0 and finite, but got '2'", () => options({ repetition: '2' })],
    ['a repetition that is null', "'repetition' must be above 0 and finite, but got null", () => options({ repetition: [1, null] })],
    ['an infinite frequency', "'frequency' must be finite, but got -Infinity", () => options({ frequency: -Infinity })],
    ['a frequency that overflows', "'frequency' must be finite, but got 1e+39", () => options({ frequency: 1e39 })],
    ['a NaN presence', "'presence' must be finite, but got NaN", () => options({ presence: NaN })],
    ['a tensor as presence', "'presence' must be finite, but got a float32 tensor of shape [2]", () => options({ presence: tf.ones([2]) })],
    ['numbers for more rows', "'frequency' must be a number or have one for each of 2 rows, but got 3 numbers", () => options({ frequency: [1, 2, 3] })],
    ['numbers for no rows', "'presence' must be a number or have one for each of 2 rows, but got 0 numbers", () => options({ presence: [] })],
    ['numbers for rows, with one history', "'repetition' must be a number or have one for each of 1 rows, but got 2 numbers", () => tokenPenalties([1, 2], { repetition: [1, 2] })],
    ['an infinite logit bias', "'logitBias' must be finite, but got -Infinity", () => options({ logitBias: { 3: -Infinity } })],
    ['a logit bias that is text', "'logitBias' must be finite, but got '1'", () => options({ logitBias: { 3: '1' } })],
    ['a logit bias of a negative id', `'logitBias' must have integers in ${ids} as its keys, but got -1`, () => options({ logitBias: { '-1': 0 } })],
    ['a logit bias of a fractional id', `'logitBias' must have integers in ${ids} as its keys, but got 1.5`, () => options({ logitBias: new Map([[1.5, 0]]) })],
    ['a logit bias of a word', `'logitBias' must have integers in ${ids} as its keys, but got 'the'`, () => options({ logitBias: { the: 1 } })],
    ['a logit bias of no word', `'logitBias' must have integers in ${ids} as its keys, but got ''`, () => options({ logitBias: { '': 1 } })],
    ['a logit bias of text in a Map', `'logitBias' must have integers in ${ids} as its keys, but got '1'`, () => options({ logitBias: new Map([['1', 0]]) })],
    ['a logit bias that is an array', "'logitBias' must be a Map or an object, but got an array of length 2", () => options({ logitBias: [1, 2] })],
    ['a logit bias that is a tensor', "'logitBias' must be a Map or an object, but got a float32 tensor of shape [2]", () => options({ logitBias: tf.ones([2]) })],
    ['a logit bias that is null', "'logitBias' must be a Map or an object, but got null", () => options({ logitBias: null })],
    ['an unknown option', "'options' must have no other keys than repetition, frequency, presence, logitBias, but got 'penalty'", () => options({ penalty: 1 })],
    ['options that are null', "'options' must be an object, but got null", () => options(null)],
    ['options that are a tensor', "'options' must be an object, but got a float32 tensor of shape [2]", () => options(tf.ones([2]))],
  ])('refuses %s', (_what, message, call) => {
    const before = tf.memory().numTensors;
    tf.tidy(() => expect(call).toThrow(`Error in tokenPenalties: argument ${message}.`));
    expect(tf.memory().numTensors).toBe(before);
  });
});
