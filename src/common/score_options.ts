/** Options that say what becomes of a score, which all ops have that score a head: their checks, and the kernel's inputs. */
import * as tf from '@tensorflow/tfjs-core';
import { checkOptions, fail, MAX_VOCAB_END, shapeText, toTensor } from './validate';

/** What an option may be given as. */
export type Numbers = tf.Tensor | tf.TensorLike;

/**
 * The steps from a product to the score that ranks, in this order: h·w + `bias`; `softCap` · tanh(score / softCap);
 * · `scale`; `adjust`; `mask`. Each rounds to float32. What is given for all rows may be given a row: then its shape begins
 * with the number of rows, or with hidden's leading dimensions. Ids are those that are returned.
 *
 * Numbers are checked; of tensors, all but `adjust.ids` are not read, for that would wait for the GPU.
 */
export interface ScoreOptions {
  /** float32 [vocabSize], or one a row: is added. Not together with a head that has a bias of its own. */
  bias?: Numbers;
  /** A number above 0, or float32 with one a row: scores then lie in [-softCap, softCap]. Infinity caps nothing. */
  softCap?: Numbers;
  /** A number, or float32 with one a row: what scores are multiplied by, such as 1 / temperature. */
  scale?: Numbers;
  /** Penalties and biases of single ids; `tokenPenalties` makes them from token histories. */
  adjust?: ScoreAdjustment;
  /**
   * int32 [words], or words a row: bit b of word w is set if id 32w+b is allowed; the scores of all others become -Infinity.
   * ceil(vocabSize / 32) words, of the whole vocabulary where this is a shard; where the size of the whole is not known,
   * words for at least the ids of the shard.
   */
  mask?: Numbers;
}

/** `repetition` r makes score / r of a score above 0 and score · r of others, then `add` is added. At least one is given. */
export interface ScoreAdjustment {
  /**
   * int32 [n], or a list a row: ids in the vocabulary, or -1, which stands for none. Of an id that is listed twice, the last
   * counts. A tensor is read, too: int32 tensors mostly lie in host memory, but one that a GPU has computed is waited for.
   */
  ids: Numbers;
  /** float32, shaped as `ids`, or a number for all of them. */
  add?: Numbers;
  /** float32, shaped as `ids`, or a number for all of them; above 0 and finite. */
  repetition?: Numbers;
}

/** The keys of `ScoreOptions`, for `checkOptions`. */
export const SCORE_OPTIONS = ['bias', 'softCap', 'scale', 'adjust', 'mask'] as const;

/** Inputs of a kernel, see `LmHeadInputs`. */
export interface ScoreInputs {
  bias?: tf.Tensor;
  softCap?: tf.Tensor;
  scale?: tf.Tensor;
  adjustIds?: tf.Tensor;
  adjustRepetition?: tf.Tensor;
  adjustAdd?: tf.Tensor;
  mask?: tf.Tensor;
}

/** Which scores the options are about. */
export interface ScorePlace {
  /** Leading dimensions of hidden, and their product. */
  leading: readonly number[];
  rows: number;
  /** Ids [vocabStart, vocabStart + vocabSize) are scored here. */
  vocabSize: number;
  vocabStart: number;
  /** Of the vocabulary that those ids are a part of; undefined where nobody knows. */
  wholeVocabSize: number | undefined;
}

/** Whether no option has to become a tensor first. Nothing has been checked yet. */
export function areTensors(options: ScoreOptions | null | undefined): boolean {
  if (options === null || options === undefined) return true;
  const { bias, softCap, scale, adjust, mask } = options;
  return [bias, softCap, scale, adjust?.ids, adjust?.add, adjust?.repetition, mask].every(
    (value) => value === undefined || value instanceof tf.Tensor,
  );
}

/** Checks the options, whose keys are known, and makes inputs of them. Call it within a tidy unless `areTensors`. */
export function scoreInputs(op: string, options: ScoreOptions, place: ScorePlace): ScoreInputs {
  const { bias, softCap, scale, adjust, mask } = options;
  const inputs: ScoreInputs = {};
  if (bias !== undefined) inputs.bias = toBiasOfRows(op, bias, place);
  if (softCap !== undefined) {
    inputs.softCap = toRowOption(op, 'softCap', softCap, place);
    checkNumbers(op, 'softCap', softCap, 'be above 0', (cap) => Math.fround(cap) > 0);
  }
  if (scale !== undefined) {
    inputs.scale = toRowOption(op, 'scale', scale, place);
    checkNumbers(op, 'scale', scale, 'be finite', isFiniteFloat);
  }
  if (adjust !== undefined) addAdjustment(op, adjust, place, inputs);
  if (mask !== undefined) inputs.mask = toMask(op, mask, place);
  return inputs;
}

function toBiasOfRows(op: string, value: Numbers, place: ScorePlace): tf.Tensor {
  const bias = toTensor(op, 'bias', value, 'float32');
  if (!hasRows(bias.shape.slice(0, -1), place) || bias.shape[bias.rank - 1] !== place.vocabSize) {
    const shapes = shapesText(place, String(place.vocabSize));
    fail(
      op,
      'bias',
      `have shape ${shapes} (the vocabulary, for all rows or for each)`,
      `shape ${shapeText(bias.shape)}`,
    );
  }
  return bias;
}

/** A number for all rows, or one for each. */
export function toRowOption(op: string, argument: string, value: Numbers, place: ScorePlace): tf.Tensor {
  const option = toTensor(op, argument, value, 'float32');
  const { shape } = option;
  if (!hasRows(shape, place) && !(shape.length === 1 && shape[0] === 1)) {
    fail(
      op,
      argument,
      `be a number or have shape ${shapesText(place)} (one for each row)`,
      `shape ${shapeText(shape)}`,
    );
  }
  return option;
}

function toMask(op: string, value: Numbers, place: ScorePlace): tf.Tensor {
  const mask = toTensor(op, 'mask', value, 'int32');
  checkNumbers(op, 'mask', value, 'hold words of 32 bits', (word) => word === (word | 0) || word === word >>> 0);
  const { vocabStart, vocabSize, wholeVocabSize } = place;
  const needed = Math.ceil((wholeVocabSize ?? vocabStart + vocabSize) / 32);
  const words = mask.shape[mask.rank - 1];
  const isEnough = wholeVocabSize === undefined ? words >= needed : words === needed;
  if (!hasRows(mask.shape.slice(0, -1), place) || !isEnough) {
    const expected =
      wholeVocabSize === undefined
        ? `${shapesText(place, 'n')}, n at least ${needed} (32 ids a word, up to id ${vocabStart + vocabSize - 1})`
        : `${shapesText(place, String(needed))} (32 ids a word, ${wholeVocabSize} ids)`;
    fail(op, 'mask', `have shape ${expected}`, `shape ${shapeText(mask.shape)}`);
  }
  return mask;
}

function addAdjustment(op: string, adjust: ScoreAdjustment, place: ScorePlace, inputs: ScoreInputs): void {
  checkOptions(op, adjust, ['ids', 'add', 'repetition'], 'adjust');
  const { ids, add, repetition } = adjust;
  if (add === undefined && repetition === undefined) {
    fail(op, 'adjust', 'have add, repetition or both', 'neither');
  }
  const $ids = toTensor(op, 'adjust.ids', ids, 'int32');
  if ($ids.rank === 0 || !hasRows($ids.shape.slice(0, -1), place)) {
    const shapes = shapesText(place, 'n');
    fail(op, 'adjust.ids', `have shape ${shapes} (ids for all rows, or for each)`, `shape ${shapeText($ids.shape)}`);
  }
  const end = place.wholeVocabSize ?? MAX_VOCAB_END;
  checkNumbers(
    op,
    'adjust.ids',
    ids instanceof tf.Tensor ? ids.dataSync() : ids,
    `be -1 or an id in [0, ${end})`,
    (id) => id >= -1 && id < end && Number.isInteger(id),
  );
  const $add = add === undefined ? undefined : toEntries(op, 'adjust.add', add, $ids);
  const $repetition = repetition === undefined ? undefined : toEntries(op, 'adjust.repetition', repetition, $ids);
  if (add !== undefined) checkNumbers(op, 'adjust.add', add, 'be a number', (x) => !Number.isNaN(x));
  if (repetition !== undefined) {
    const isRight = (r: number) => Math.fround(r) > 0 && isFiniteFloat(r);
    checkNumbers(op, 'adjust.repetition', repetition, 'be above 0 and finite', isRight);
  }
  if ($ids.size === 0) return;
  inputs.adjustIds = $ids;
  inputs.adjustAdd = $add;
  inputs.adjustRepetition = $repetition;
}

/** A number for each of the ids. */
function toEntries(op: string, argument: string, value: Numbers, ids: tf.Tensor): tf.Tensor {
  if (typeof value === 'number') return tf.tensor(new Float32Array(ids.size).fill(value), ids.shape);
  const entries = toTensor(op, argument, value, 'float32');
  if (!tf.util.arraysEqual(entries.shape, ids.shape)) {
    const expected = `be a number or have shape ${shapeText(ids.shape)}, that of adjust.ids`;
    fail(op, argument, expected, `shape ${shapeText(entries.shape)}`);
  }
  return entries;
}

/** Checks numbers that are given as such, before they were rounded to the tensor's type. */
export function checkNumbers(
  op: string,
  argument: string,
  value: Numbers,
  expected: string,
  isRight: (x: number) => boolean,
): void {
  if (value instanceof tf.Tensor) return;
  // tf.util.flatten is slow on a TypedArray.
  const numbers = ArrayBuffer.isView(value) ? (value as Int32Array) : tf.util.flatten(value as number[]);
  for (let i = 0; i < numbers.length; i++) {
    if (!isRight(numbers[i])) fail(op, argument, expected, String(numbers[i]));
  }
}

function isFiniteFloat(x: number): boolean {
  return Number.isFinite(Math.fround(x));
}

/** Whether these dimensions stand for all rows alike, or for each of them. */
function hasRows(shape: readonly number[], { leading, rows }: ScorePlace): boolean {
  if (shape.length === 0 || (shape.length === 1 && shape[0] === rows)) return true;
  return shape.length === leading.length && shape.every((size, i) => size === leading[i]);
}

/** The shapes that `hasRows` takes; those of one number, without `inner`, are left to the caller. */
function shapesText({ leading, rows }: ScorePlace, inner?: string): string {
  const outer = leading.length > 1 ? [[rows], leading] : [[rows]];
  if (inner === undefined) return outer.map((shape) => `[${shape.join(',')}]`).join(' or ');
  const shapes = [[], ...outer].map((shape) => `[${[...shape, inner].join(',')}]`);
  return `${shapes.slice(0, -1).join(', ')} or ${shapes[shapes.length - 1]}`;
}
