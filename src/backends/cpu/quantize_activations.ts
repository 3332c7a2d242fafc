import * as tf from '@tensorflow/tfjs-core';
import type { QuantizeActivationsInputs } from '../../kernel_names';
import { QuantizeActivations } from '../../kernel_names';
import { roundHalfEven } from '../../common/half';
import { read } from './io';

const { abs, fround, max, min } = Math;

export interface QuantizedRow {
  /** Integers in [-127, 127]. */
  q: Int32Array;
  /** float32; NaN for a row that holds NaN or an infinity. */
  scale: number;
}

/** Row `row` of `hidden` in 8 bits: scale = absmax / 127, q = round-half-even(h / scale), both in float32. */
export function quantizeRow(hidden: ArrayLike<number>, row: number, hiddenSize: number): QuantizedRow {
  const q = new Int32Array(hiddenSize);
  let absmax = 0;
  for (let i = 0; i < hiddenSize; i++) {
    const magnitude = abs(hidden[row * hiddenSize + i]);
    if (!Number.isFinite(magnitude)) return { q, scale: NaN };
    absmax = max(absmax, magnitude);
  }
  const scale = fround(absmax / 127);
  if (scale === 0) return { q, scale };
  for (let i = 0; i < hiddenSize; i++) {
    const quotient = roundHalfEven(fround(hidden[row * hiddenSize + i] / scale));
    q[i] = min(127, max(-127, quotient)); // only a subnormal scale gets past 127
  }
  return { q, scale };
}

export const quantizeActivationsConfig: tf.KernelConfig = {
  kernelName: QuantizeActivations,
  backendName: 'cpu',
  kernelFunc: ({ inputs }) => {
    const { hidden } = inputs as QuantizeActivationsInputs;
    const leading = hidden.shape.slice(0, -1);
    const hiddenSize = hidden.shape[leading.length];
    const values = read(hidden);
    const q = new Int32Array(values.length);
    const scale = new Float32Array(tf.util.sizeFromShape(leading));
    for (let row = 0; row < scale.length; row++) {
      const quantized = quantizeRow(values, row, hiddenSize);
      q.set(quantized.q, row * hiddenSize);
      scale[row] = quantized.scale;
    }
    return [tf.tensor(q, hidden.shape, 'int32'), tf.tensor(scale, leading, 'float32')];
  },
};
