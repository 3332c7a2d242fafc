import * as tf from '@tensorflow/tfjs-core';
import type { PackHalfAttrs, PackHalfInputs } from '../../kernel_names';
import { PackHalf } from '../../kernel_names';
import { halfRowWords, toHalf } from '../../common/half';
import { read } from './io';

/** Rounds and packs two elements a word; see `LmHeadTopKInputs.weight`. */
export const packHalfConfig: tf.KernelConfig = {
  kernelName: PackHalf,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { x } = inputs as PackHalfInputs;
    const { format, transpose } = attrs as unknown as PackHalfAttrs;
    const [rows, columns] = transpose ? [x.shape[1], x.shape[0]] : x.shape;
    const words = halfRowWords(columns);
    const values = read(x);
    const packed = new Int32Array(rows * words);
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const half = toHalf(values[transpose ? column * rows + row : row * columns + column], format);
        packed[row * words + (column >>> 1)] |= column % 2 === 0 ? half : half << 16;
      }
    }
    return tf.tensor(packed, [rows, words], 'int32');
  },
};
