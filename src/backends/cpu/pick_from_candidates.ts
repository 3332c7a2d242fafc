import * as tf from '@tensorflow/tfjs-core';
import { Best } from '../../common/candidates';
import type { PickFromCandidatesInputs } from '../../kernel_names';
import { PickFromCandidates } from '../../kernel_names';
import { read } from './io';

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
      for (let rank = 0; rank < ranks; rank++) best.offerRow(values, (rank * rows + row) * width);
      ids[row] = best.id;
    }
    return tf.tensor(ids, [rows], 'int32');
  },
};
