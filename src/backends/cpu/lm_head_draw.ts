import * as tf from '@tensorflow/tfjs-core';
import { noiseOf, noisy, SEED_WORDS } from '../../common/noise';
import { isBetter, orderKey } from '../../common/order';
import type { LmHeadDrawAttrs, LmHeadDrawInputs } from '../../kernel_names';
import { LmHeadDraw } from '../../kernel_names';
import { read } from './io';
import { LogSums } from './log_sums';
import type { Sweep } from './sweep';
import { sweepPlain } from './sweep';

/** What no draw gives. */
const NEVER = -Infinity;

/** The best of each row's noisy scores, and the sum of the scores without noise where asked. */
export function lmHeadDraw(sweep: Sweep, inputs: LmHeadDrawInputs, attrs: LmHeadDrawAttrs): tf.Tensor[] {
  const { vocabStart, logSumExp, logSumState } = attrs;
  const leading = inputs.hidden.shape.slice(0, -1);
  const rows = tf.util.sizeFromShape(leading);
  const temperatures = read(inputs.temperature);
  const seeds = read(inputs.seed);
  const rowIds = inputs.rowIds && read(inputs.rowIds);
  const [temperatureStride, seedStride] = [
    temperatures.length === 1 ? 0 : 1,
    seeds.length === SEED_WORDS ? 0 : SEED_WORDS,
  ];
  // So no id with -Infinity comes before -1.
  const best = new Float32Array(rows).fill(NEVER);
  const keys = new Int32Array(rows).fill(orderKey(NEVER));
  const ids = new Int32Array(rows).fill(-1);
  const sums = logSumExp || logSumState ? new LogSums(leading) : undefined;
  sweep(inputs, attrs, (row, place, score) => {
    sums?.add(row, score);
    if (score === NEVER) return;
    const id = vocabStart + place;
    const temperature = temperatures[row * temperatureStride];
    // Noise costs most of a draw, and at temperature 0 nothing comes of it.
    const noise = temperature === 0 ? 0 : noiseOf(seeds, row * seedStride, rowIds ? rowIds[row] : row, id);
    const value = noisy(score, temperature, noise);
    const key = orderKey(value);
    if (!isBetter(key, id, keys[row], ids[row])) return;
    best[row] = value;
    keys[row] = key;
    ids[row] = id;
  });
  const result = [tf.tensor(best, leading, 'float32'), tf.tensor(ids, leading, 'int32')];
  if (sums && logSumExp) result.push(sums.values());
  if (sums && logSumState) result.push(sums.states());
  return result;
}

export const lmHeadDrawConfig: tf.KernelConfig = {
  kernelName: LmHeadDraw,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadDraw(sweepPlain, inputs as LmHeadDrawInputs, attrs as unknown as LmHeadDrawAttrs),
};
