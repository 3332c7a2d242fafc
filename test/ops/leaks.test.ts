import * as tf from '@tensorflow/tfjs-core';
import {
  LmHead,
  lmHeadLogProbs,
  lmHeadSample,
  lmHeadScores,
  lmHeadTopK,
  lmHeadTopKBinary,
  lmHeadVerify,
  localArgmaxCandidates,
  pickFromCandidates,
  quantizeActivations,
  vocabParallelArgmax,
} from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { FORMATS, inject, randomFloats } from '../cases';
import { inAllRanks } from '../simulated_ranks';

/** What TensorFlow itself holds, beside tfjs's own count. */
function counts(): number[] {
  const { numTensors, numDataBuffers } = tf.memory();
  const backend = tf.backend() as tf.KernelBackend & { getNumOfTFTensors?(): number };
  return [numTensors, numDataBuffers, backend.getNumOfTFTensors?.() ?? 0];
}

// case 64: one tensor leaked a call until the crash, https://github.com/tensorflow/tfjs/issues/1120
describeEachBackend('1000 calls leave nothing behind', () => {
  it.each(FORMATS)('lmHeadTopK, %s', (format) => {
    const { hidden, head, dispose } = inject(format, [randomFloats(50, 1), randomFloats(50, 2)]);
    const once = (given: LmHead) => {
      for (const host of [false, true]) {
        const { values, indices } = lmHeadTopK(hidden, given, 5, { host });
        tf.dispose([values, indices]);
      }
    };
    once(head); // moves the inputs to the device
    const before = counts();
    for (let i = 0; i < 1000; i++) once(head);
    expect(counts()).toEqual(before);
    dispose();
  });

  it.each(FORMATS)('lmHeadTopK with logSumExp of rank 3, with and without k, %s', (format) => {
    const { hidden, head, dispose } = inject(format, [randomFloats(50, 1), randomFloats(50, 2)]);
    const rank3 = tf.expandDims(hidden, 1);
    const once = () => {
      for (const k of [0, 5]) tf.dispose(lmHeadTopK(rank3, head, k, { logSumExp: true }));
    };
    once();
    const before = counts();
    for (let i = 0; i < 500; i++) once();
    expect(counts()).toEqual(before);
    rank3.dispose();
    dispose();
  });

  it('lmHeadTopK of rank 3 with numbers, and calls that throw', () => {
    const hidden = tf.ones([2, 2, 3]);
    const weight = tf.ones<tf.Rank.R2>([5, 3]);
    const once = () => {
      const { values, indices } = lmHeadTopK(hidden, weight, 5, { bias: [1, 2, 3, 4, 5] });
      tf.dispose([values, indices]);
      expect(() => lmHeadTopK(hidden, weight, 6, { bias: [1, 2, 3, 4, 5] })).toThrow();
    };
    once();
    const before = counts();
    for (let i = 0; i < 1000; i++) once();
    expect(counts()).toEqual(before);
    tf.dispose([hidden, weight]);
  });

  it.each(FORMATS)('the ops of the decoding loop, with numbers and with tensors, %s', (format) => {
    const { hidden, head, dispose } = inject(format, [randomFloats(50, 1), randomFloats(50, 2)]);
    const rank3 = tf.expandDims(hidden);
    const [ids, draft] = [tf.tensor2d([[1], [2]], [2, 1], 'int32'), tf.tensor2d([[3]], [1, 1], 'int32')];
    const once = () => {
      tf.dispose([lmHeadScores(hidden, head, ids), lmHeadScores(hidden, head, [[1], [2]], { scale: 2 })]);
      tf.dispose(lmHeadLogProbs(hidden, head, ids));
      tf.dispose(lmHeadSample(hidden, head, { seed: 1, temperature: 0.5, rowIds: [3, 4] }));
      tf.dispose(lmHeadVerify(rank3, head, draft, { seed: 1 }));
    };
    once();
    const before = counts();
    for (let i = 0; i < 1000; i++) once();
    expect(counts()).toEqual(before);
    tf.dispose([rank3, ids, draft]);
    dispose();
  });

  it('the argmax ops', () => {
    const shards = [tf.tensor2d(randomFloats(20, 3), [2, 10]), tf.tensor2d(randomFloats(20, 4), [2, 10])];
    const once = () => {
      vocabParallelArgmax(shards).dispose();
      vocabParallelArgmax(shards[0], { host: true }).dispose();
      tf.tidy(() => {
        const candidates = shards.map((shard) => localArgmaxCandidates(shard));
        pickFromCandidates(tf.stack(candidates));
      });
    };
    once();
    const before = counts();
    for (let i = 0; i < 1000; i++) once();
    expect(counts()).toEqual(before);
    tf.dispose(shards);
  });

  it('lmHeadTopKBinary of quantizeActivations, and calls that throw', () => {
    const hidden = tf.tensor2d(randomFloats(128, 5), [2, 64]);
    const [bits, scales] = [tf.ones<tf.Rank.R2>([9, 2], 'int32'), tf.ones<tf.Rank.R2>([9, 2])];
    const wide = tf.fill([2, 64], 128, 'int32');
    const once = () => {
      const { q, scale } = quantizeActivations(hidden);
      tf.dispose([q, scale, lmHeadTopKBinary(q, scale, bits, scales, { groupSize: 32, k: 3 })]);
      expect(() => lmHeadTopKBinary(wide, [1, 1], bits, scales, { groupSize: 32, k: 3 })).toThrow("argument 'actQ'");
    };
    once();
    const before = counts();
    for (let i = 0; i < 300; i++) once();
    expect(counts()).toEqual(before);
    tf.dispose([hidden, bits, scales, wide]);
  });

  it('packing and unpacking binary heads', () => {
    const weight = tf.tensor2d(randomFloats(320, 6), [5, 64]);
    const once = () => {
      const head = LmHead.binarize(weight, { groupSize: 32 });
      const { bits, scales } = head.unpack();
      LmHead.binary({ bits, scales, groupSize: 32 }).dispose();
      tf.dispose([bits, scales]);
      head.dispose();
    };
    once();
    const before = counts();
    for (let i = 0; i < 300; i++) once();
    expect(counts()).toEqual(before);
    weight.dispose();
  });

  it('ops with a group', () => {
    const logits = tf.tensor2d(randomFloats(20, 3), [2, 10]);
    const { hidden, head, dispose } = inject('bfloat16', [randomFloats(50, 1), randomFloats(50, 2)]);
    const once = () => {
      inAllRanks(2, (group) => vocabParallelArgmax(logits, { vocabStart: 10 * group.rank, group }).dispose());
      inAllRanks(2, (group) =>
        tf.dispose(lmHeadTopK(hidden, head, 60, { vocabStart: 50 * group.rank, logSumExp: true, group })),
      );
    };
    once();
    const before = counts();
    for (let i = 0; i < 200; i++) once();
    expect(counts()).toEqual(before);
    logits.dispose();
    dispose();
  });

  it('making and disposing heads', () => {
    const once = () => inject('float16', [[1, 2, 3]]).dispose();
    once();
    const before = counts();
    for (let i = 0; i < 1000; i++) once();
    expect(counts()).toEqual(before);
  });

  // case 66: an output was disposed with another tensor, https://github.com/tensorflow/tfjs/issues/7504
  it.each(FORMATS)('outputs share nothing with inputs or with each other, %s', (format) => {
    const { hidden, head, dispose } = inject(format, [[1, 5, 3]]);
    const first = lmHeadTopK(hidden, head, 2);
    const second = lmHeadTopK(hidden, head, 2);
    const values = second.values.arraySync();
    tf.dispose([first.values, first.indices]);
    dispose();
    const filler = tf.zeros([1, 2]);
    filler.dataSync();
    expect(second.indices.arraySync()).toEqual([[1, 2]]);
    expect(second.values.arraySync()).toEqual(values);
    tf.dispose([filler, second.values, second.indices]);
  });
});
