import * as tf from '@tensorflow/tfjs-core';
import { CANDIDATE_WIDTH } from '../common/candidates';
import { PickFromCandidates } from '../kernel_names';
import { runKernel } from '../common/run_kernel';
import { fail, shapeText, toTensor } from '../common/validate';

/**
 * The second half of a vocab-parallel argmax: of each row's candidates from all ranks, the id of the best.
 *
 * ```js
 * const all = tf.stack(perRank);  // each from localArgmaxCandidates
 * pickFromCandidates(all).print();
 * ```
 *
 * @param candidates int32 [ranks, rows, 16], as `localArgmaxCandidates` gives them; at least one rank. The order of the
 *     ranks does not matter.
 * @returns int32 [rows], ids counted from each rank's `vocabStart`. Where every rank's slice was empty: 2^31 - 1.
 * @throws Error on a wrong shape or dtype, or a disposed tensor.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function pickFromCandidates(candidates: tf.Tensor | tf.TensorLike): tf.Tensor1D {
  const op = 'pickFromCandidates';
  return tf.tidy(op, () => {
    const $candidates = toTensor<tf.Tensor3D>(op, 'candidates', candidates, 'int32');
    const [ranks, rows, width] = $candidates.shape;
    if ($candidates.rank !== 3 || ranks === 0 || width !== CANDIDATE_WIDTH) {
      const expected = `have shape [ranks, rows, ${CANDIDATE_WIDTH}], ranks at least 1`;
      fail(op, 'candidates', expected, `shape ${shapeText($candidates.shape)}`);
    }
    if (rows === 0) return tf.tensor1d([], 'int32');
    return runKernel<tf.Tensor1D>(PickFromCandidates, { candidates: $candidates }, {});
  });
}
