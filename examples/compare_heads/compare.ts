import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import type { Matrix } from './safetensors';

/** How many of the best are compared. */
export const KS = [1, 10, 50] as const;
const GROUP_SIZES = [32, 128, 384];

export interface HeadResult {
  head: string;
  /** Memory that the head takes. */
  bytes: number;
  /** For each of KS: which part of the k best of the float32 head are among this head's k best, the mean of all rows. */
  overlap: Record<(typeof KS)[number], number>;
}

/**
 * Compares heads made of one vocabulary matrix with the float32 one: in bfloat16, and binarized in groups of several sizes.
 * @param weight [vocabSize, hiddenSize]
 * @param hidden [rows, hiddenSize]
 * @returns the float32 head first; no head whose group size does not divide hiddenSize
 */
export function compareHeads(weight: Matrix, hidden: Float32Array): HeadResult[] {
  const { rows: vocabSize, columns: hiddenSize, values } = weight;
  const makers: [string, (matrix: tf.Tensor2D) => LmHead][] = [
    ['float32', (matrix) => LmHead.dense(matrix)],
    ['bfloat16', (matrix) => LmHead.dense(matrix, { dtype: 'bfloat16' })],
    ...GROUP_SIZES.filter((groupSize) => hiddenSize % groupSize === 0).map(
      (groupSize): [string, (matrix: tf.Tensor2D) => LmHead] => [
        `binary, groups of ${groupSize}`,
        (matrix) => LmHead.binarize(matrix, { groupSize }),
      ],
    ),
  ];
  const matrix = tf.tensor2d(values, [vocabSize, hiddenSize]);
  const vectors = tf.tensor2d(hidden, [hidden.length / hiddenSize, hiddenSize]);
  let expected: number[][] | undefined;
  const results = makers.map(([name, make]) => {
    const head = make(matrix);
    const ids = bestIds(vectors, head);
    expected ??= ids;
    const { bytes } = head;
    head.dispose();
    return { head: name, bytes, overlap: overlaps(expected, ids) };
  });
  tf.dispose([matrix, vectors]);
  return results;
}

function bestIds(hidden: tf.Tensor2D, head: LmHead): number[][] {
  const { values, indices } = lmHeadTopK(hidden, head, Math.max(...KS));
  const ids = indices.arraySync() as number[][];
  tf.dispose([values, indices]);
  return ids;
}

function overlaps(expected: number[][], ids: number[][]): HeadResult['overlap'] {
  const mean = (k: number) => ids.reduce((sum, row, i) => sum + shared(expected[i], row, k), 0) / (k * ids.length);
  return Object.fromEntries(KS.map((k) => [k, mean(k)])) as HeadResult['overlap'];
}

/** How many of the first k of `expected` are among the first k of `actual`. */
export function shared(expected: readonly number[], actual: readonly number[], k: number): number {
  const found = new Set(actual.slice(0, k));
  return expected.slice(0, k).filter((id) => found.has(id)).length;
}
