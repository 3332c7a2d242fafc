import * as tf from '@tensorflow/tfjs-core';
import type { PackBinaryAttrs, PackBinaryInputs, UnpackBinaryAttrs, UnpackBinaryInputs } from '../../kernel_names';
import { PackBinary, UnpackBinary } from '../../kernel_names';
import { BinaryLayout } from '../../common/binary_layout';
import { halfTable, toHalf, unpackHalf } from '../../common/half';
import { read } from './io';

/** Element by element to the place that the layout says. */
export const packBinaryConfig: tf.KernelConfig = {
  kernelName: PackBinary,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { bits, scales } = inputs as PackBinaryInputs;
    const { groupSize } = attrs as unknown as PackBinaryAttrs;
    const [vocabSize, words] = bits.shape;
    const layout = new BinaryLayout(32 * words, groupSize);
    const [bitValues, scaleValues] = [read(bits), read(scales)];
    const packed = new Int32Array(layout.tiles(vocabSize) * layout.tileWords);
    const halves = new Uint16Array(packed.buffer);
    for (let id = 0; id < vocabSize; id++) {
      for (let word = 0; word < words; word++) packed[layout.wordAt(id, word)] = bitValues[id * words + word];
      for (let group = 0; group < layout.groups; group++) {
        halves[layout.scaleAt(id, group)] = toHalf(scaleValues[id * layout.groups + group], 'float16');
      }
    }
    return tf.tensor(packed, [layout.tiles(vocabSize), layout.tileWords], 'int32');
  },
};

/** The inverse. */
export const unpackBinaryConfig: tf.KernelConfig = {
  kernelName: UnpackBinary,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { packed } = inputs as UnpackBinaryInputs;
    const { vocabSize, hiddenSize, groupSize } = attrs as unknown as UnpackBinaryAttrs;
    const layout = new BinaryLayout(hiddenSize, groupSize);
    const { words, groups } = layout;
    const values = read(packed);
    const table = halfTable('float16');
    const bits = new Int32Array(vocabSize * words);
    const scales = new Float32Array(vocabSize * groups);
    for (let id = 0; id < vocabSize; id++) {
      for (let word = 0; word < words; word++) bits[id * words + word] = values[layout.wordAt(id, word)];
      for (let group = 0; group < groups; group++) {
        scales[id * groups + group] = unpackHalf(values, 0, layout.scaleAt(id, group), table);
      }
    }
    return [tf.tensor(bits, [vocabSize, words], 'int32'), tf.tensor(scales, [vocabSize, groups], 'float32')];
  },
};
