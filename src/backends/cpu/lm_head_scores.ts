import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadScoresAttrs, LmHeadScoresInputs } from '../../kernel_names';
import { LmHeadScores } from '../../kernel_names';
import { read } from './io';
import type { Sweep } from './sweep';
import { sweepPlain, vocabSizeOf } from './sweep';

/** The scores of the rows' ids, each where its id stands. */
export function lmHeadScores(sweep: Sweep, inputs: LmHeadScoresInputs, attrs: LmHeadScoresAttrs): tf.Tensor {
  const leading = inputs.hidden.shape.slice(0, -1);
  const rows = tf.util.sizeFromShape(leading);
  const ids = read(inputs.ids);
  const n = ids.length / rows;
  const { vocabStart } = attrs;
  const vocabSize = vocabSizeOf(inputs, attrs);
  const scores = new Float32Array(ids.length).fill(NaN);
  const isHere = (id: number) => id >= vocabStart && id < vocabStart + vocabSize;
  // By place, then by row, where the score belongs: a row may ask for a place twice.
  const targets = new Map<number, Map<number, number[]>>();
  for (const id of new Set(Int32Array.from(ids).sort())) if (isHere(id)) targets.set(id - vocabStart, new Map());
  for (let i = 0; i < ids.length; i++) {
    const ofPlace = targets.get(ids[i] - vocabStart);
    const row = Math.floor(i / n);
    ofPlace?.set(row, [...(ofPlace.get(row) ?? []), i]);
  }
  const asked = new Map([...targets].map(([place, ofPlace]) => [place, [...ofPlace.keys()]]));
  const offer = (row: number, place: number, score: number) => {
    for (const i of targets.get(place)?.get(row) ?? []) scores[i] = score;
  };
  sweep(inputs, attrs, offer, asked);
  return tf.tensor(scores, [...leading, n], 'float32');
}

export const lmHeadScoresConfig: tf.KernelConfig = {
  kernelName: LmHeadScores,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadScores(sweepPlain, inputs as LmHeadScoresInputs, attrs as unknown as LmHeadScoresAttrs),
};
