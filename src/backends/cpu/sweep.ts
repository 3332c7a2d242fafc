/** How kernels in TypeScript get at the final scores of a head: entry after entry of the vocabulary. */
import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadAttrs, LmHeadInputs } from '../../kernel_names';
import { makeEpilogue } from './epilogue';
import { read } from './io';
import type { ScorerInput } from './scores';
import { makeScorer } from './scores';

/** Takes a final score; `place` counts ids from the head's first. Places ascend in each row. */
export type Offer = (row: number, place: number, score: number) => void;

/** The only scores that a sweep has to offer: of places, which ascend, those of some rows, which ascend. */
export type Asked = ReadonlyMap<number, readonly number[]>;

/**
 * Offers the scores of all rows, or those that are asked for. A score's bits depend on nothing but its row, its place and the
 * head, so that those of one kernel may be compared with those of another.
 */
export type Sweep = (inputs: LmHeadInputs, attrs: LmHeadAttrs, offer: Offer, asked?: Asked) => void;

/** What scorers read off a kernel's inputs. */
export function scorerInput(inputs: LmHeadInputs, attrs: LmHeadAttrs): ScorerInput {
  const leading = inputs.hidden.shape.slice(0, -1);
  return {
    ...attrs,
    hidden: read(inputs.hidden),
    rows: tf.util.sizeFromShape(leading),
    hiddenSize: inputs.hidden.shape[leading.length],
    vocabSize: vocabSizeOf(inputs, attrs),
    weight: read(inputs.weight),
    hiddenScale: inputs.hiddenScale && read(inputs.hiddenScale),
  };
}

/** How many ids the head holds. */
export function vocabSizeOf({ weight }: LmHeadInputs, { format, vocabSize, transposeWeight }: LmHeadAttrs): number {
  return format === 'binary' ? vocabSize : weight.shape[transposeWeight ? 1 : 0];
}

/** Scores in plain JavaScript. */
export const sweepPlain: Sweep = (inputs, attrs, offer, asked) => {
  const input = scorerInput(inputs, attrs);
  const scorer = makeScorer(input);
  const epilogue = makeEpilogue(inputs, attrs);
  const scores = new Float32Array(input.rows);
  const score = (place: number, rows: readonly number[]) => {
    scorer(place, rows, scores);
    for (const row of rows) offer(row, place, epilogue(row, place, scores[row]));
  };
  if (asked !== undefined) {
    asked.forEach((rows, place) => score(place, rows));
    return;
  }
  const allRows = Array.from(scores, (_, row) => row);
  for (let place = 0; place < input.vocabSize; place++) score(place, allRows);
};
