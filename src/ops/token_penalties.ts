import * as tf from '@tensorflow/tfjs-core';
import { checkOptions, describe, fail, MAX_VOCAB_END, shapeText, toTensor } from '../common/validate';

const OP = 'tokenPenalties';
const LARGEST_ID = MAX_VOCAB_END - 1;
/** What is no id in a tensor, and in the result. */
const PADDING = -1;

type History = readonly number[] | Int32Array;

/** One history, or one a row; in a tensor, -1 stands for no token. */
export type TokenHistories = History | readonly History[] | tf.Tensor;

export interface TokenPenaltiesOptions {
  /** Scores above 0 of tokens in the history are divided by it, others multiplied. Above 0. Default 1. One number, or one a row. */
  repetition?: number | ArrayLike<number>;
  /** Is subtracted for each time that the history has a token. Default 0. One number, or one a row. */
  frequency?: number | ArrayLike<number>;
  /** Is subtracted once if the history has a token. Default 0. One number, or one a row. */
  presence?: number | ArrayLike<number>;
  /** What is added to the scores of single ids, whether the history has them or not. Default: nothing. */
  logitBias?: ReadonlyMap<number, number> | Readonly<Record<number, number>>;
}

/** The option `adjust` of `lmHeadTopK`. */
export type TokenPenalties = {
  /** int32 [n], or [rows, n]; -1 after a row's last id. */
  ids: tf.Tensor;
  /** float32, shaped as `ids`; 0 where that is -1. */
  add: tf.Tensor;
  /** float32, shaped as `ids`; 1 where that is -1. */
  repetition: tf.Tensor;
};

/**
 * Makes the option `adjust` of `lmHeadTopK` from the tokens that there are already: a score s becomes s / repetition if it is
 * above 0 and s · repetition otherwise, less frequency · count + presence, plus its logit bias.
 *
 * ```js
 * const adjust = tokenPenalties([[11, 7, 11], [42]], {repetition: 1.2, frequency: 0.5, logitBias: {13: -100}});
 * adjust.ids.print();  // [[11, 7, 13], [42, 13, -1]]
 * adjust.add.print();  // [[-1, -0.5, -100], [-0.5, -100, 0]]
 * const {values, indices} = lmHeadTopK(hidden, head, 50, {adjust});  // 2 rows of hidden
 * ```
 *
 * The repetition penalty is that of Keskar et al. 2019, "CTRL: A Conditional Transformer Language Model for Controllable
 * Generation", of scores above and below 0 alike; frequency and presence penalty and logit bias are those of OpenAI's API
 * reference. `lmHeadTopK` applies them to scores that `softCap` and `scale` have changed.
 *
 * @param tokens integers in [0, 2^31 - 2]: one history as an array or Int32Array, one a row as an array of those, of any
 *     lengths, or an int32 tensor [n] or [rows, n], in which -1 stands for no token. A tensor is read: one that a GPU has
 *     computed is waited for.
 * @param options `repetition` (default 1), `frequency` (default 0) and `presence` (default 0), a number or an array of one a
 *     row; `logitBias` (default: none), a Map or an object from ids to numbers, the same for all rows. All finite.
 * @returns `ids` int32, `add` and `repetition` float32, all [n] for one history, and otherwise [rows, n], where n is that of
 *     the row with most ids. A row has each id once: those of its history in the order of their first occurrence, then those
 *     that only `logitBias` has, with repetition 1; then id -1, add 0 and repetition 1 to the end. Dispose them after use.
 * @throws Error on ids that are no integers or out of range, numbers that are not finite or a repetition of 0 or less, arrays
 *     that do not have one number a row, a tensor of a wrong rank or dtype or a disposed one, or an unknown option.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function tokenPenalties(tokens: TokenHistories, options: TokenPenaltiesOptions = {}): TokenPenalties {
  checkOptions(OP, options, ['repetition', 'frequency', 'presence', 'logitBias']);
  const { rows, leading } = toHistories(tokens);
  const repetition = toRowNumbers(
    'repetition',
    options.repetition ?? 1,
    rows.length,
    'be above 0 and finite',
    isPositive,
  );
  const frequency = toRowNumbers('frequency', options.frequency ?? 0, rows.length, 'be finite', isFiniteFloat);
  const presence = toRowNumbers('presence', options.presence ?? 0, rows.length, 'be finite', isFiniteFloat);
  const logitBias = toLogitBias(options.logitBias);

  const counts = rows.map(countTokens);
  const lists = counts.map((count) => [...count.keys(), ...[...logitBias.keys()].filter((id) => !count.has(id))]);
  const size = lists.reduce((longest, { length }) => Math.max(longest, length), 0);
  const ids = new Int32Array(rows.length * size).fill(PADDING);
  const adds = new Float32Array(ids.length);
  const repetitions = new Float32Array(ids.length).fill(1);
  lists.forEach((list, row) => {
    ids.set(list, row * size);
    list.forEach((id, i) => {
      const count = counts[row].get(id) ?? 0;
      const penalty = count === 0 ? 0 : frequency(row) * count + presence(row);
      adds[row * size + i] = (logitBias.get(id) ?? 0) - penalty;
      if (count > 0) repetitions[row * size + i] = repetition(row);
    });
  });
  const shape = [...leading, size];
  return {
    ids: tf.tensor(ids, shape, 'int32'),
    add: tf.tensor(adds, shape, 'float32'),
    repetition: tf.tensor(repetitions, shape, 'float32'),
  };
}

/** The histories, and the result's dimensions before the last. */
function toHistories(tokens: TokenHistories): { rows: History[]; leading: number[] } {
  if (tokens instanceof tf.Tensor) return historiesOfTensor(toTensor(OP, 'tokens', tokens, 'int32'));
  if (tokens instanceof Int32Array) return { rows: [checkIds(tokens)], leading: [] };
  if (!Array.isArray(tokens)) {
    fail(OP, 'tokens', 'be an array of ids or of such arrays, or an int32 tensor', describe(tokens));
  }
  const elements: unknown[] = Array.from(tokens as readonly unknown[]); // without holes, which `some` skips
  if (!elements.some(isHistory)) return { rows: [checkIds(elements)], leading: [] };
  const other = elements.findIndex((element) => !isHistory(element));
  if (other >= 0) fail(OP, 'tokens', 'have an array in each row if it has one in any', describe(elements[other]));
  return { rows: (elements as History[]).map(checkIds), leading: [elements.length] };
}

function isHistory(value: unknown): value is History {
  return Array.isArray(value) || value instanceof Int32Array;
}

function historiesOfTensor(tensor: tf.Tensor): { rows: History[]; leading: number[] } {
  const { rank, shape } = tensor;
  if (rank !== 1 && rank !== 2) fail(OP, 'tokens', 'have shape [n] or [rows, n]', `shape ${shapeText(shape)}`);
  const leading = shape.slice(0, -1);
  const length = shape[rank - 1];
  const ids = tensor.dataSync<'int32'>();
  const wrong = ids.find((id) => id < PADDING || id > LARGEST_ID);
  if (wrong !== undefined) fail(OP, 'tokens', `hold -1 or ids in [0, ${LARGEST_ID}]`, String(wrong));
  const rows = Array.from({ length: leading[0] ?? 1 }, (_, row) => ids.subarray(row * length, (row + 1) * length));
  return { rows: rows.map((row) => row.filter((id) => id !== PADDING)), leading };
}

/** A history that a program without types may have given. */
function checkIds(history: readonly unknown[] | Int32Array): History {
  for (let i = 0; i < history.length; i++) {
    if (!isId(history[i])) fail(OP, 'tokens', `hold integers in [0, ${LARGEST_ID}]`, describe(history[i]));
  }
  return history as History;
}

function isId(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= LARGEST_ID;
}

/** How often a history has each id, in the order of first occurrence. */
function countTokens(history: History): Map<number, number> {
  const counts = new Map<number, number>();
  for (let i = 0; i < history.length; i++) {
    counts.set(history[i], (counts.get(history[i]) ?? 0) + 1);
  }
  return counts;
}

/** An option that may differ from row to row, as a function of the row. */
function toRowNumbers(
  argument: string,
  value: number | ArrayLike<number>,
  rows: number,
  expected: string,
  isRight: (x: number) => boolean,
): (row: number) => number {
  const check = (x: unknown): void => {
    if (typeof x !== 'number' || !isRight(x)) fail(OP, argument, expected, describe(x));
  };
  if (!Array.isArray(value) && !ArrayBuffer.isView(value)) {
    check(value);
    return () => value as number;
  }
  const numbers = value as ArrayLike<number>;
  if (numbers.length !== rows) {
    fail(OP, argument, `be a number or have one for each of ${rows} rows`, `${numbers.length} numbers`);
  }
  Array.from(numbers).forEach(check);
  return (row) => numbers[row];
}

function toLogitBias(value: TokenPenaltiesOptions['logitBias']): Map<number, number> {
  if (value === undefined) return new Map();
  const isMap = value instanceof Map;
  if (!isMap && (value instanceof tf.Tensor || Object.prototype.toString.call(value) !== '[object Object]')) {
    fail(OP, 'logitBias', 'be a Map or an object', describe(value));
  }
  const entries = isMap ? [...(value as Map<unknown, unknown>)] : Object.entries(value as object).map(numberKey);
  const biases = new Map<number, number>();
  for (const [id, bias] of entries) {
    if (!isId(id)) fail(OP, 'logitBias', `have integers in [0, ${LARGEST_ID}] as its keys`, describe(id));
    if (typeof bias !== 'number' || !isFiniteFloat(bias)) fail(OP, 'logitBias', 'be finite', describe(bias));
    biases.set(id as number, bias);
  }
  return biases;
}

/** An object's keys are text; what is not just a number's text stays it. */
function numberKey([key, bias]: [string, unknown]): [unknown, unknown] {
  return [String(Number(key)) === key ? Number(key) : key, bias];
}

/** Of what becomes a float32. */
function isFiniteFloat(x: number): boolean {
  return Number.isFinite(Math.fround(x));
}

function isPositive(x: number): boolean {
  return isFiniteFloat(x) && Math.fround(x) > 0;
}
