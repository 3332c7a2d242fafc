import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { TopK } from '../../common/order';
import type { Epilogue } from './epilogue';
import { makeEpilogue } from './epilogue';
import { read } from './io';
import { LogSumExp, STATE_WORDS } from '../../common/log_sum_exp';
import type { ScorerInput } from './scores';
import { makeScorer } from './scores';

/** What both plain kernels read off their inputs. */
export function scorerInput(inputs: LmHeadTopKInputs, attrs: LmHeadTopKAttrs): ScorerInput {
  const leading = inputs.hidden.shape.slice(0, -1);
  return {
    ...attrs,
    hidden: read(inputs.hidden),
    rows: tf.util.sizeFromShape(leading),
    hiddenSize: inputs.hidden.shape[leading.length],
    vocabSize: attrs.format === 'binary' ? attrs.vocabSize : inputs.weight.shape[attrs.transposeWeight ? 1 : 0],
    weight: read(inputs.weight),
    hiddenScale: inputs.hiddenScale && read(inputs.hiddenScale),
  };
}

/** The scores of all rows, entry after entry of the vocabulary, pass through one heap a row, and one sum where asked. */
export class Selection {
  private readonly leading: number[];
  private readonly epilogue: Epilogue;
  private readonly heaps: TopK[];
  private readonly sums: LogSumExp[];

  constructor(
    inputs: LmHeadTopKInputs,
    private readonly attrs: LmHeadTopKAttrs,
  ) {
    this.leading = inputs.hidden.shape.slice(0, -1);
    this.epilogue = makeEpilogue(inputs, attrs);
    const rows = tf.util.sizeFromShape(this.leading);
    this.heaps = Array.from({ length: rows }, () => new TopK(attrs.k));
    const wantsSums = attrs.logSumExp || attrs.logSumState;
    this.sums = Array.from({ length: wantsSums ? rows : 0 }, () => new LogSumExp());
  }

  /** Ids ascend in each row. `sum` is a float32, of which the epilogue makes the score. */
  offer(row: number, id: number, sum: number): void {
    const finished = this.epilogue(row, id, sum);
    this.heaps[row].offer(this.attrs.vocabStart + id, finished);
    if (this.sums.length > 0) this.sums[row].add(finished);
  }

  /** [values, indices], both [..., k], and what was asked for of logSumExp, [...], and its state, [..., STATE_WORDS]. */
  result(): tf.Tensor[] {
    const { leading, heaps, sums } = this;
    const { k, logSumExp, logSumState } = this.attrs;
    const values = new Float32Array(heaps.length * k);
    const indices = new Int32Array(heaps.length * k);
    heaps.forEach((heap, row) => heap.drain(values, indices, row * k));
    const result = [tf.tensor(values, [...leading, k], 'float32'), tf.tensor(indices, [...leading, k], 'int32')];
    if (logSumExp) {
      const logs = Float32Array.from(sums, (sum) => sum.value());
      result.push(tf.tensor(logs, leading, 'float32'));
    }
    if (logSumState) {
      const words = new Int32Array(sums.length * STATE_WORDS);
      sums.forEach((sum, row) => sum.store(words.subarray(row * STATE_WORDS, (row + 1) * STATE_WORDS)));
      result.push(tf.tensor(words, [...leading, STATE_WORDS], 'int32'));
    }
    return result;
  }
}

/** Scores in plain JavaScript, one heap a row. */
export function lmHeadTopKPlain(inputs: LmHeadTopKInputs, attrs: LmHeadTopKAttrs): tf.Tensor[] {
  const input = scorerInput(inputs, attrs);
  const scorer = makeScorer(input);
  const selection = new Selection(inputs, attrs);
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
