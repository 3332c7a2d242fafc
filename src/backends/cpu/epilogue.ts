/** From a row's product with an entry of the vocabulary to the score that ranks; the twin of `kernels/core/finish.h`. */
import * as tf from '@tensorflow/tfjs-core';
import { tanhRounded } from '../../common/float_math';
import type { LmHeadAttrs, LmHeadInputs } from '../../kernel_names';
import { read } from './io';

const { fround } = Math;

/** The final score; `place` counts ids from the head's first, and `score` is a float32. */
export type Epilogue = (row: number, place: number, score: number) => number;

/** What the options of a call make of its scores, one step after the other, each of which rounds once. */
export function makeEpilogue(inputs: LmHeadInputs, { vocabStart }: Pick<LmHeadAttrs, 'vocabStart'>): Epilogue {
  const { bias, softCap, scale, mask } = inputs;
  const steps: Epilogue[] = [];
  if (bias) {
    const { values, stride } = rowsOf(bias, 1);
    steps.push((row, place, score) => fround(score + values[row * stride + place]));
  }
  if (softCap) {
    const { values, stride } = rowsOf(softCap, 0);
    steps.push((row, _place, score) => capped(score, values[row * stride]));
  }
  if (scale) {
    const { values, stride } = rowsOf(scale, 0);
    steps.push((row, _place, score) => fround(score * values[row * stride]));
  }
  const adjust = adjustStep(inputs, vocabStart);
  if (adjust) steps.push(adjust);
  if (mask) {
    const { values, stride } = rowsOf(mask, 1);
    steps.push((row, place, score) => {
      const id = vocabStart + place;
      return (values[row * stride + Math.floor(id / 32)] >>> (id % 32)) & 1 ? score : -Infinity;
    });
  }
  return (row, place, score) => {
    for (const step of steps) score = step(row, place, score);
    return score;
  };
}

/** softCap * tanh(score / softCap). */
function capped(score: number, softCap: number): number {
  if (softCap === Infinity) return score;
  return fround(tanhRounded(fround(score * fround(1 / softCap))) * softCap);
}

/** Penalties and biases of single ids. */
function adjustStep(inputs: LmHeadInputs, vocabStart: number): Epilogue | undefined {
  if (!inputs.adjustIds) return undefined;
  const { values: ids, stride, lists } = rowsOf(inputs.adjustIds, 1);
  const add = inputs.adjustAdd && read(inputs.adjustAdd);
  const repetition = inputs.adjustRepetition && read(inputs.adjustRepetition);
  // Of each list, the entry of each id; of several, the last.
  const entries = Array.from({ length: lists }, () => new Map<number, number>());
  for (let i = 0; i < ids.length; i++) entries[Math.floor((i * lists) / ids.length)].set(ids[i], i);
  return (row, place, score) => {
    const entry = entries[stride === 0 ? 0 : row].get(vocabStart + place);
    if (entry === undefined) return score;
    // Keskar et al. 2019, "CTRL: A Conditional Transformer Language Model for Controllable Generation".
    if (repetition) score = fround(score > 0 ? score / repetition[entry] : score * repetition[entry]);
    return add ? fround(score + add[entry]) : score;
  };
}

/** A tensor's values for each row: row r has those from r * stride on, and all rows have the same where that is 0. */
function rowsOf(info: tf.TensorInfo, innerRank: 0 | 1): { values: ArrayLike<number>; stride: number; lists: number } {
  const lists = tf.util.sizeFromShape(info.shape.slice(0, info.shape.length - innerRank));
  const inner = innerRank === 0 ? 1 : info.shape[info.shape.length - 1];
  return { values: read(info), stride: lists === 1 ? 0 : inner, lists };
}
