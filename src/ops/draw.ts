/** What the ops share that draw from the softmax of a head's scores. */
import * as tf from '@tensorflow/tfjs-core';
import { seedWords } from '../common/noise';
import { runKernel } from '../common/run_kernel';
import type { Numbers } from '../common/score_options';
import { checkNumbers, toRowOption } from '../common/score_options';
import { checkInteger, fail, shapeText, toTensor } from '../common/validate';
import { drawOverTransport } from '../group/decoding_group';
import type { LmHeadDrawAttrs } from '../kernel_names';
import { LmHeadDraw } from '../kernel_names';
import type { DecodingCall } from './decoding_call';
import { scoresOfIds } from './decoding_call';
import type { HeadOptions } from './head_call';
import { HEAD_OPTIONS, headAttrs } from './head_call';

export interface DrawOptions extends HeadOptions {
  /**
   * What scores are divided by before the softmax: 0, which draws the best id, or at least 1e-6 and finite; a number, or
   * float32 with one a row. Default 1.
   */
  temperature?: Numbers;
  /** Integer in [0, 2^53): the same seed, step, row id and scores always give the same draw. */
  seed: number;
  /** Integer in [0, 2^53): number of the token, so that one seed serves a whole text. Default 0. */
  step?: number;
  /** int32, one a row, at least 0: which noise each row gets, wherever in a batch it lies. Default: the number of the row. */
  rowIds?: Numbers;
}

/** The keys of `DrawOptions`, for `checkOptions`. */
export const DRAW_OPTIONS = [...HEAD_OPTIONS, 'temperature', 'seed', 'step', 'rowIds'] as const;

const LEAST_TEMPERATURE = 1e-6;
const MAX_SEED = 2 ** 53 - 1;

/** Inputs of `LmHeadDraw` that say how to draw. */
export interface DrawInputs {
  temperature: tf.Tensor;
  seed: tf.Tensor;
  rowIds: tf.Tensor | undefined;
}

/** The temperature, checked. Call it within a tidy. */
export function toTemperature(op: string, temperature: Numbers = 1, call: DecodingCall): tf.Tensor {
  const expected = `be 0 or a finite number of at least ${LEAST_TEMPERATURE}`;
  const isRight = (t: number) => t === 0 || (t >= LEAST_TEMPERATURE && Number.isFinite(Math.fround(t)));
  const tensor = toRowOption(op, 'temperature', temperature, call);
  checkNumbers(op, 'temperature', temperature, expected, isRight);
  return tensor;
}

/** Checks seed and step; `steps` of them are drawn with, from `step` on. */
export function checkSeed(op: string, seed: number, step: number, steps = 1): void {
  checkInteger(op, 'seed', seed, 0, MAX_SEED);
  checkInteger(op, 'step', step, 0, MAX_SEED - (steps - 1));
}

/** Row ids, one for each of `rows`, which have `leading` dimensions. Call it within a tidy. */
export function toRowIds(
  op: string,
  value: Numbers | undefined,
  leading: readonly number[],
  rows: number,
): tf.Tensor | undefined {
  if (value === undefined) return undefined;
  const rowIds = toTensor(op, 'rowIds', value, 'int32');
  const isOfRows = [[rows], leading].some((shape) => tf.util.arraysEqual(shape as number[], rowIds.shape));
  if (!isOfRows) {
    const expected = leading.length === 1 ? `[${rows}]` : `[${rows}] or [${leading.join(',')}]`;
    fail(op, 'rowIds', `have shape ${expected} (one for each row)`, `shape ${shapeText(rowIds.shape)}`);
  }
  const isRight = (id: number) => Number.isInteger(id) && id >= 0 && id < 2 ** 31;
  checkNumbers(op, 'rowIds', value, 'be an integer in [0, 2147483647]', isRight);
  return rowIds;
}

/** What a call has drawn: ids int32 [...], their scores and the log-sum-exp float32 [...]. */
export interface Drawn {
  ids: tf.Tensor;
  /** Undefined where the call does not want them. */
  scores: tf.Tensor | undefined;
  logSumExp: tf.Tensor | undefined;
}

/**
 * One draw a row: the best of score / temperature + Gumbel noise (Gumbel-max).
 * @param details of the call that ranks have to agree on.
 */
export function draw(call: DecodingCall, inputs: DrawInputs, details: readonly number[], wantsScores: boolean): Drawn {
  const { leading, rows, part } = call;
  if (rows === 0) {
    const empty = () => tf.tensor([], leading, 'float32');
    return { ids: tf.tensor([], leading, 'int32'), scores: empty(), logSumExp: empty() };
  }
  if (part !== undefined) {
    const [ids, scores, logSumExp] = drawOverTransport(part, { ...inputs }, details);
    return { ids, scores, logSumExp };
  }
  const attrs: LmHeadDrawAttrs = { ...headAttrs(call), logSumExp: wantsScores };
  const [, ids, logSumExp] = runKernel<tf.Tensor[]>(LmHeadDraw, { ...call.inputs, ...inputs }, attrs);
  const scores = wantsScores ? tf.reshape(scoresOfIds(call, ids, 1, []), leading) : undefined;
  return { ids, scores, logSumExp };
}

/** int32 [4], for all rows. */
export function seedTensor(seed: number, step: number): tf.Tensor {
  return tf.tensor1d(Int32Array.from(seedWords(seed, step)), 'int32');
}
