import * as tf from '@tensorflow/tfjs-core';
import type { LocalArgmaxCandidatesAttrs, LocalArgmaxCandidatesInputs } from '../../kernel_names';
import { LocalArgmaxCandidates } from '../../kernel_names';
import { Best, CANDIDATE_SLICES, CANDIDATE_WIDTH } from '../../common/candidates';
import { orderKey } from '../../common/order';
import { read } from './io';

export const localArgmaxCandidatesConfig: tf.KernelConfig = {
  kernelName: LocalArgmaxCandidates,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { logits } = inputs as LocalArgmaxCandidatesInputs;
    const { vocabStart, vocabSize, columnMajor } = attrs as unknown as LocalArgmaxCandidatesAttrs;
    const [rows, columns] = columnMajor ? [logits.shape[1], logits.shape[0]] : logits.shape;
    const values = read(logits);
    const length = Math.ceil(vocabSize / CANDIDATE_SLICES);
    const candidates = new Int32Array(rows * CANDIDATE_WIDTH);
    for (let row = 0; row < rows; row++) {
      for (let slice = 0; slice < CANDIDATE_SLICES; slice++) {
        const best = new Best();
        const end = Math.min((slice + 1) * length, vocabSize);
        for (let column = slice * length; column < end; column++) {
          const value = values[columnMajor ? column * rows + row : row * columns + column];
          best.offer(orderKey(value), vocabStart + column);
        }
        candidates.set([best.key, best.id], row * CANDIDATE_WIDTH + 2 * slice);
      }
    }
    return tf.tensor(candidates, [rows, CANDIDATE_WIDTH], 'int32');
  },
};
