import * as tf from '@tensorflow/tfjs-core';
import { TopK } from '../../common/order';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { LogSums } from './log_sums';
import type { Sweep } from './sweep';
import { sweepPlain } from './sweep';

/** The scores of all rows pass through one heap a row, and one sum where asked. */
export function lmHeadTopK(sweep: Sweep, inputs: LmHeadTopKInputs, attrs: LmHeadTopKAttrs): tf.Tensor[] {
  const { k, vocabStart, logSumExp, logSumState } = attrs;
  const leading = inputs.hidden.shape.slice(0, -1);
  const heaps = Array.from({ length: tf.util.sizeFromShape(leading) }, () => new TopK(k));
  const sums = logSumExp || logSumState ? new LogSums(leading) : undefined;
  sweep(inputs, attrs, (row, place, score) => {
    heaps[row].offer(vocabStart + place, score);
    sums?.add(row, score);
  });
  const values = new Float32Array(heaps.length * k);
  const indices = new Int32Array(heaps.length * k);
  heaps.forEach((heap, row) => heap.drain(values, indices, row * k));
  const result = [tf.tensor(values, [...leading, k], 'float32'), tf.tensor(indices, [...leading, k], 'int32')];
  if (sums && logSumExp) result.push(sums.values());
  if (sums && logSumState) result.push(sums.states());
  return result;
}

export const lmHeadTopKConfig: tf.KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadTopK(sweepPlain, inputs as LmHeadTopKInputs, attrs as unknown as LmHeadTopKAttrs),
};
