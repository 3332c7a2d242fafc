import * as tf from '@tensorflow/tfjs-core';
import type { PickFromCandidatesInputs } from '../../kernel_names';
import { PickFromCandidates } from '../../kernel_names';
import { read } from './io';
import { Best } from './local_argmax_candidates';

export const pickFromCandidatesConfig: tf.KernelConfig = {
  kernelName: PickFromCandidates,
  backendName: 'cpu',
  kernelFunc: ({ inputs }) => {
    const { candidates } = inputs as PickFromCandidatesInputs;
    const [ranks, rows, width] = candidates.shape;
    const values = read(candidates);
    const ids = new Int32Array(rows);
    for (let row = 0; row < rows; row++) {
      const best = new Best();
      for (let rank = 0; rank < ranks; rank++) {
        const start = (rank * rows + row) * width;
        for (let i = start; i < start + width; i += 2) best.offer(values[i], values[i + 1]);
      }
      ids[row] = best.id;
    }
    return tf.tensor(ids, [rows], 'int32');
  },
};
