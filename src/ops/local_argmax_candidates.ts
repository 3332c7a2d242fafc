import * as tf from '@tensorflow/tfjs-core';
import { CANDIDATE_WIDTH } from '../common/candidates';
import type { LocalArgmaxCandidatesAttrs } from '../kernel_names';
import { LocalArgmaxCandidates } from '../kernel_names';
import { runKernel } from '../common/run_kernel';
import { checkBoolean, checkInteger, checkOptions, fail, MAX_VOCAB_END, shapeText, toTensor } from '../common/validate';

export interface LocalArgmaxCandidatesOptions {
  /** Id of the first column. Default 0. */
  vocabStart?: number;
  /** Columns that count; those from here on are padding and never win. Default: all. */
  vocabSize?: number;
  /** Whether the logits are given as [columns, rows]. Default false. */
  columnMajor?: boolean;
}

/**
 * The first half of a vocab-parallel argmax: the best of each of 8 slices of every row, as 64 bytes a row that can be sent
 * to another process. Concatenate the results of all ranks along a new first axis and give them to `pickFromCandidates`.
 *
 * ```js
 * const mine = localArgmaxCandidates(logits, {vocabStart: 32000 * rank});
 * ```
 *
 * A candidate is a pair (key, id) of integers: keys compare, signed, as the logits rank (NaN first, -0 equal to +0), so
 * ids are exact up to 2^31 - 2. A slice without columns gives (-2^31, 2^31 - 1), which loses against everything.
 *
 * @param logits float32 [..., columns], of rank 1 or higher; leading dimensions become rows. With `columnMajor`: float32
 *     [columns, rows].
 * @param options `vocabStart` (default 0), id of the first column; `vocabSize` (default: all), how many of the columns
 *     given here count, 0 included; `columnMajor` (default false).
 * @returns int32 [rows, 16].
 * @throws Error on a wrong rank or dtype, a disposed tensor, options out of range or unknown.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function localArgmaxCandidates(
  logits: tf.Tensor | tf.TensorLike,
  options: LocalArgmaxCandidatesOptions = {},
): tf.Tensor2D {
  const op = 'localArgmaxCandidates';
  return tf.tidy(op, () => {
    checkArgmaxOptions(op, options, []);
    const { vocabStart = 0, columnMajor = false } = options;
    const { matrix, rows, columns } = toLogits(op, 'logits', logits, columnMajor);
    const vocabSize = checkVocab(op, options, columns, 0);
    if (rows === 0) return tf.tensor2d([], [0, CANDIDATE_WIDTH], 'int32');
    const attrs: LocalArgmaxCandidatesAttrs = { vocabStart, vocabSize, columnMajor };
    return runKernel<tf.Tensor2D>(LocalArgmaxCandidates, { logits: matrix }, attrs);
  });
}

/** What the argmax ops know of logits given to them. */
export interface Logits {
  /** [rows, columns], or [columns, rows] when column-major. */
  matrix: tf.Tensor2D;
  /** The dimensions of the result. */
  leading: number[];
  rows: number;
  columns: number;
}

/** `more` are the options that the op has beside those it shares. */
export function checkArgmaxOptions(op: string, options: LocalArgmaxCandidatesOptions, more: string[]): void {
  checkOptions(op, options, ['vocabStart', 'vocabSize', 'columnMajor', ...more]);
  checkBoolean(op, 'columnMajor', options.columnMajor ?? false);
}

/** Checks `vocabSize` and `vocabStart` against the number of columns, and returns the former or its default. */
export function checkVocab(op: string, options: LocalArgmaxCandidatesOptions, columns: number, least: number): number {
  const { vocabStart = 0, vocabSize = columns } = options;
  checkInteger(op, 'vocabSize', vocabSize, least, columns);
  checkInteger(op, 'vocabStart', vocabStart, 0, MAX_VOCAB_END - vocabSize);
  return vocabSize;
}

/** `least` is the smallest number of columns: 0 where other ranks have more. */
export function toLogits(
  op: string,
  argument: string,
  value: tf.Tensor | tf.TensorLike,
  columnMajor: boolean,
  least = 1,
): Logits {
  const logits = toTensor(op, argument, value, 'float32');
  if (columnMajor) {
    if (logits.rank !== 2) {
      fail(op, argument, 'have shape [columns, rows] when columnMajor is set', `shape ${shapeText(logits.shape)}`);
    }
    const [columns, rows] = logits.shape;
    if (columns < least) fail(op, argument, 'have at least one column', `shape ${shapeText(logits.shape)}`);
    return { matrix: logits as tf.Tensor2D, leading: [rows], rows, columns };
  }
  if (logits.rank === 0) fail(op, argument, 'have rank 1 or higher', 'a scalar');
  const leading = logits.shape.slice(0, -1);
  const columns = logits.shape[logits.rank - 1];
  if (columns < least) fail(op, argument, 'have at least one column', `shape ${shapeText(logits.shape)}`);
  const rows = tf.util.sizeFromShape(leading);
  const matrix = logits.rank === 2 ? (logits as tf.Tensor2D) : tf.reshape<tf.Rank.R2>(logits, [rows, columns]);
  return { matrix, leading, rows, columns };
}
