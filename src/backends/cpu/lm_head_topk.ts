import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { TopK } from '../order';
import { read } from './io';
import type { ScorerInput } from './scores';
import { makeScorer } from './scores';

/** What both plain kernels read off their inputs. */
export function scorerInput(inputs: LmHeadTopKInputs, attrs: LmHeadTopKAttrs): ScorerInput {
  const [rows, hiddenSize] = inputs.hidden.shape;
  return {
    ...attrs,
    hidden: read(inputs.hidden),
    rows,
    hiddenSize,
    vocabSize: inputs.weight.shape[attrs.transposeWeight ? 1 : 0],
    weight: read(inputs.weight),
    scales: inputs.scales && read(inputs.scales),
  };
}

/** The scores of all rows, entry after entry of the vocabulary, pass through one heap a row. */
export class Selection {
  private readonly heaps: TopK[];

  constructor(
    private readonly rows: number,
    private readonly attrs: LmHeadTopKAttrs,
    private readonly bias: ArrayLike<number> | undefined,
  ) {
    this.heaps = Array.from({ length: rows }, () => new TopK(attrs.k));
  }

  /** `score` is a float32 without bias; the bias is added here, in float32. */
  offer(row: number, id: number, score: number): void {
    this.heaps[row].offer(this.attrs.vocabStart + id, this.bias ? Math.fround(score + this.bias[id]) : score);
  }

  /** [values, indices], both [rows, k]. */
  result(): tf.Tensor[] {
    const { rows } = this;
    const { k } = this.attrs;
    const values = new Float32Array(rows * k);
    const indices = new Int32Array(rows * k);
    this.heaps.forEach((heap, row) => heap.drain(values, indices, row * k));
    return [tf.tensor(values, [rows, k], 'float32'), tf.tensor(indices, [rows, k], 'int32')];
  }
}

/** Scores in plain JavaScript, one heap a row. */
export function lmHeadTopKPlain(inputs: LmHeadTopKInputs, attrs: LmHeadTopKAttrs): tf.Tensor[] {
  const input = scorerInput(inputs, attrs);
  const scorer = makeScorer(input);
  const selection = new Selection(input.rows, attrs, inputs.bias && read(inputs.bias));
  const scores = new Float32Array(input.rows);
  for (let id = 0; id < input.vocabSize; id++) {
    scorer(id, scores);
    for (let row = 0; row < input.rows; row++) selection.offer(row, id, scores[row]);
  }
  return selection.result();
}

export const lmHeadTopKConfig: tf.KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => lmHeadTopKPlain(inputs as LmHeadTopKInputs, attrs as unknown as LmHeadTopKAttrs),
};
