import * as tf from '@tensorflow/tfjs-core';
import type { BinarizeHeadAttrs, BinarizeHeadInputs } from '../../kernel_names';
import { BinarizeHead } from '../../kernel_names';
import { read } from './io';

/** Bit set unless the weight is below zero (so for 0, -0 and NaN); scale = mean |w|, summed in float64, rounded once. */
export const binarizeHeadConfig: tf.KernelConfig = {
  kernelName: BinarizeHead,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { weight } = inputs as BinarizeHeadInputs;
    const { groupSize } = attrs as unknown as BinarizeHeadAttrs;
    const [rows, columns] = weight.shape;
    const values = read(weight);
    const bits = new Int32Array((rows * columns) / 32);
    const scales = new Float32Array((rows * columns) / groupSize);
    // Rows are whole groups and whole words, so the flat index alone says where an element goes.
    for (let group = 0; group < scales.length; group++) {
      let sum = 0;
      for (let i = group * groupSize; i < (group + 1) * groupSize; i++) {
        sum += Math.abs(values[i]);
        if (!(values[i] < 0)) bits[i >>> 5] |= 1 << (i & 31);
      }
      scales[group] = sum / groupSize;
    }
    return [tf.tensor(bits, [rows, columns / 32], 'int32'), tf.tensor(scales, [rows, columns / groupSize], 'float32')];
  },
};
