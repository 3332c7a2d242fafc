import * as tf from '@tensorflow/tfjs-core';
import { isBetter, orderKey } from '../../common/order';
import type { LmHeadRanksAttrs, LmHeadRanksInputs } from '../../kernel_names';
import { LmHeadRanks } from '../../kernel_names';
import { read } from './io';
import { LogSums } from './log_sums';
import type { Sweep } from './sweep';
import { sweepPlain } from './sweep';

/** Each score is compared with those of all ids of its row that are asked for. */
export function lmHeadRanks(sweep: Sweep, inputs: LmHeadRanksInputs, attrs: LmHeadRanksAttrs): tf.Tensor[] {
  const leading = inputs.hidden.shape.slice(0, -1);
  const ids = read(inputs.ids);
  const keys = Int32Array.from(read(inputs.scores), orderKey);
  const n = ids.length / tf.util.sizeFromShape(leading);
  const ranks = new Int32Array(ids.length);
  const sums = new LogSums(leading);
  sweep(inputs, attrs, (row, place, score) => {
    const key = orderKey(score);
    for (let i = row * n; i < (row + 1) * n; i++) {
      if (isBetter(key, attrs.vocabStart + place, keys[i], ids[i])) ranks[i]++;
    }
    sums.add(row, score);
  });
  const result = [tf.tensor(ranks, [...leading, n], 'int32'), sums.values()];
  return attrs.logSumState ? [...result, sums.states()] : result;
}

export const lmHeadRanksConfig: tf.KernelConfig = {
  kernelName: LmHeadRanks,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadRanks(sweepPlain, inputs as LmHeadRanksInputs, attrs as unknown as LmHeadRanksAttrs),
};
