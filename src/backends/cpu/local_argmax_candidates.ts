import * as tf from '@tensorflow/tfjs-core';
import type { LocalArgmaxCandidatesAttrs, LocalArgmaxCandidatesInputs } from '../../kernel_names';
import { LocalArgmaxCandidates } from '../../kernel_names';
import { EMPTY_ID, EMPTY_KEY, isBetter, orderKey } from '../../common/order';
import { read } from './io';

/** Slices of a row, each with a candidate of its own. */
const SLICES = 8;

/** A best-so-far that starts below every candidate. */
export class Best {
  key = EMPTY_KEY;
  id = EMPTY_ID;

  offer(key: number, id: number): void {
    if (isBetter(key, id, this.key, this.id)) [this.key, this.id] = [key, id];
  }
}

export const localArgmaxCandidatesConfig: tf.KernelConfig = {
  kernelName: LocalArgmaxCandidates,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { logits } = inputs as LocalArgmaxCandidatesInputs;
    const { vocabStart, vocabSize, columnMajor } = attrs as unknown as LocalArgmaxCandidatesAttrs;
    const [rows, columns] = columnMajor ? [logits.shape[1], logits.shape[0]] : logits.shape;
    const values = read(logits);
    const length = Math.ceil(vocabSize / SLICES);
    const candidates = new Int32Array(rows * SLICES * 2);
    for (let row = 0; row < rows; row++) {
      for (let slice = 0; slice < SLICES; slice++) {
        const best = new Best();
        const end = Math.min((slice + 1) * length, vocabSize);
        for (let column = slice * length; column < end; column++) {
          const value = values[columnMajor ? column * rows + row : row * columns + column];
          best.offer(orderKey(value), vocabStart + column);
        }
        candidates.set([best.key, best.id], (row * SLICES + slice) * 2);
      }
    }
    return tf.tensor(candidates, [rows, SLICES * 2], 'int32');
  },
};
