/** The option `host`: the same results, which are there when the call returns. */
import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadTopKOptions } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK, vocabParallelArgmax } from 'tfjs-lm-head';
import { describeEachBackend, GPU_MODE } from '../backends';
import { cutShards, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { inAllRanks } from '../simulated_ranks';
import { bitsOf } from './take';

const HIDDEN_SIZE = 64;

function makeHead(format: HeadFormat, vocabSize: number, bias?: Float32Array): LmHead {
  const weight = tf.tensor2d(randomFloats(vocabSize * HIDDEN_SIZE, 1), [vocabSize, HIDDEN_SIZE]);
  const head =
    format === 'binary'
      ? LmHead.binarize(weight, { groupSize: 32, bias })
      : LmHead.dense(weight, { dtype: format, bias });
  weight.dispose();
  return head;
}

/** Everything that a result says. */
function contents(tensors: (tf.Tensor | undefined)[]): unknown[] {
  return tensors.map(
    (tensor) => tensor && { shape: tensor.shape, dtype: tensor.dtype, bits: bitsOf(tensor.dataSync()) },
  );
}

function topK(hidden: tf.Tensor, head: LmHead, k: number, options: LmHeadTopKOptions): unknown[] {
  const { values, indices, logSumExp } = lmHeadTopK(hidden, head, k, options);
  return contents([values, indices, logSumExp]);
}

describeEachBackend('host', (backend) => {
  describe.each(FORMATS)('lmHeadTopK, %s', (format) => {
    it.each([
      [[1], 1],
      [[3], 50],
      [[2, 3], 7],
      [[], 5],
      [[5], 0],
      [[0], 5],
      [[2], 2300],
    ])('gives hidden of %j rows and k = %d the same results', (leading, k) => {
      const vocabSize = 2500;
      const head = makeHead(format, vocabSize, randomFloats(vocabSize, 2));
      const shape = [...leading, HIDDEN_SIZE];
      const hidden = tf.tensor(randomFloats(tf.util.sizeFromShape(shape), 3), shape);
      for (const logSumExp of [false, true]) {
        const options = { logSumExp, vocabStart: 10 };
        expect(topK(hidden, head, k, { ...options, host: true })).toEqual(topK(hidden, head, k, options));
      }
      hidden.dispose();
      head.dispose();
    });
  });

  it('gives the same results where they are more than a mebibyte', () => {
    const [rows, k] = [300, 1024];
    const head = makeHead('float32', 1100);
    const hidden = tf.tensor2d(randomFloats(rows * HIDDEN_SIZE, 4), [rows, HIDDEN_SIZE]);
    const options = { logSumExp: true };
    expect(topK(hidden, head, k, { ...options, host: true })).toEqual(topK(hidden, head, k, options));
    hidden.dispose();
    head.dispose();
  });

  it('gives results that other ops take, and that later calls leave alone', () => {
    const { hidden, head, dispose } = inject('float32', [
      [1, 5, 3],
      [9, 2, 4],
    ]);
    const first = lmHeadTopK(hidden, head, 2, { host: true });
    lmHeadTopK(hidden, head, 3, { host: true });
    const doubled = tf.mul(first.values, 2);
    const kept = tf.gather(tf.tensor1d([10, 20, 30]), first.indices);
    expect(doubled.arraySync()).toEqual([
      [10, 6],
      [18, 8],
    ]);
    expect(kept.arraySync()).toEqual([
      [20, 30],
      [10, 30],
    ]);
    dispose();
  });

  it('gives vocabParallelArgmax the same ids', () => {
    const [rows, columns] = [6, 1000];
    const logits = randomIntegers(rows * columns, -9, 9, 5);
    const whole = tf.tensor2d(logits, [rows, columns]);
    const deep = tf.reshape(whole, [2, 3, columns]);
    const shards = cutShards(logits, rows, [400, 1, 599]);
    for (const [given, options] of [
      [whole, { vocabStart: 7, vocabSize: 900 }],
      [deep, {}],
      [shards, {}],
      [tf.transpose(whole), { columnMajor: true }],
      [tf.zeros([0, 5]), {}],
    ] as const) {
      const call = (host: boolean) => contents([vocabParallelArgmax(given, { ...options, host })]);
      expect(call(true)).toEqual(call(false));
    }
  });

  it('gives every rank of a transport the same results', () => {
    const head = makeHead('bfloat16', 100);
    const hidden = tf.tensor2d(randomFloats(2 * HIDDEN_SIZE, 6), [2, HIDDEN_SIZE]);
    const logits = tf.tensor2d(randomFloats(200, 7), [2, 100]);
    const call = (host: boolean) =>
      inAllRanks(3, (group) => {
        const place = { vocabStart: 100 * group.rank, group, host };
        return [topK(hidden, head, 120, { ...place, logSumExp: true }), place.vocabStart];
      });
    expect(call(true)).toEqual(call(false));
    const ids = (host: boolean) =>
      inAllRanks(3, (group) => contents([vocabParallelArgmax(logits, { vocabStart: 100 * group.rank, group, host })]));
    expect(ids(true)).toEqual(ids(false));
    head.dispose();
  });

  if (backend === 'tensorflow' && GPU_MODE) {
    it('leaves nothing for dataSync to wait for', () => {
      const head = makeHead('bfloat16', 2500);
      const hidden = tf.tensor2d(randomFloats(HIDDEN_SIZE, 8), [1, HIDDEN_SIZE]);
      const large = tf.ones<tf.Rank.R2>([4096, 4096]);
      const work = () => tf.tidy(() => Array.from({ length: 20 }, () => tf.matMul(large, large)).pop() as tf.Tensor);
      work().dataSync();
      const call = () => {
        const { values, indices, logSumExp } = lmHeadTopK(hidden, head, 50, { logSumExp: true, host: true });
        return [values, indices, logSumExp, vocabParallelArgmax(hidden, { host: true })];
      };
      tf.dispose(call());
      const results = call();
      const last = work();
      const start = performance.now();
      for (const result of results) result.dataSync();
      const read = performance.now();
      last.dataSync(); // 2.7 TFLOP, and the GPU has just begun
      const all = performance.now() - start;
      expect((read - start) / all).toBeLessThan(0.5);
      tf.dispose([...results, hidden, large, last]);
      head.dispose();
    });
  }
});
