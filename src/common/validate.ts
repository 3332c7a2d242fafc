/** Checks that the public ops share. Each throws an error that names op, argument, what was expected and what came. */
import * as tf from '@tensorflow/tfjs-core';

/** Largest id plus one: ids are int32, and 2^31 - 1 marks an empty candidate. */
export const MAX_VOCAB_END = 2 ** 31 - 1;

/**
 * Throws `Error in lmHeadTopK: argument 'k' must be an integer in [0, 100], but got 128.`
 * @param expected continues "must ".
 */
export function fail(op: string, argument: string, expected: string, actual: string): never {
  throw new Error(`Error in ${op}: argument '${argument}' must ${expected}, but got ${actual}.`);
}

/** A few words for any value in an error message. */
export function describe(value: unknown): string {
  if (value instanceof tf.Tensor) return `a ${value.dtype} tensor of shape ${shapeText(value.shape as number[])}`;
  if (value === null || typeof value !== 'object') return typeof value === 'string' ? `'${value}'` : String(value);
  if (Array.isArray(value)) return `an array of length ${value.length}`;
  return `a value of type ${Object.prototype.toString.call(value).slice('[object '.length, -1)}`;
}

export function shapeText(shape: number[]): string {
  return `[${shape.join(',')}]`;
}

/**
 * The tensor itself, or a new one from numbers. A TypedArray keeps its dtype, as in tfjs: an Int32Array is not float32.
 * Call it within a tidy.
 */
export function toTensor<T extends tf.Tensor>(
  op: string,
  argument: string,
  value: tf.Tensor | tf.TensorLike,
  dtype: 'float32' | 'int32',
): T {
  let tensor: tf.Tensor;
  if (value instanceof tf.Tensor) {
    tensor = value;
    if (tensor.isDisposed) fail(op, argument, 'be a tensor that exists', 'one that has been disposed');
  } else {
    try {
      const infer = ArrayBuffer.isView(value) || dtype === 'float32';
      tensor = tf.tensor(value, undefined, infer ? undefined : dtype);
    } catch (error) {
      fail(op, argument, 'be a tensor or numbers that make one', `${describe(value)} (${(error as Error).message})`);
    }
    if (!isRectangular(value, tensor.shape)) {
      fail(op, argument, 'be a tensor or numbers that make one', 'nested arrays of unequal lengths'); // tfjs lets them pass
    }
  }
  if (tensor.dtype !== dtype) fail(op, argument, `have dtype ${dtype}`, `dtype ${tensor.dtype}`);
  return tensor as T;
}

function isRectangular(value: unknown, shape: number[]): boolean {
  if (shape.length === 0) return typeof value !== 'object';
  if (ArrayBuffer.isView(value)) return shape.length === 1 && (value as Float32Array).length === shape[0];
  return (
    Array.isArray(value) && value.length === shape[0] && value.every((part) => isRectangular(part, shape.slice(1)))
  );
}

/** `toTensor`, for a bias of exactly `length` elements. */
export function toBias(op: string, value: tf.Tensor | tf.TensorLike, length: number): tf.Tensor1D {
  const bias = toTensor<tf.Tensor1D>(op, 'bias', value, 'float32');
  if (bias.rank !== 1 || bias.size !== length) {
    fail(op, 'bias', `have shape [${length}] (the vocabulary)`, `shape ${shapeText(bias.shape)}`);
  }
  return bias;
}

/** `toTensor`, for a matrix whose two sizes are at least 1. */
export function toMatrix(
  op: string,
  argument: string,
  value: tf.Tensor | tf.TensorLike,
  dtype: 'float32' | 'int32',
  layout: string,
): tf.Tensor2D {
  const matrix = toTensor<tf.Tensor2D>(op, argument, value, dtype);
  if (matrix.rank !== 2 || matrix.size === 0) {
    fail(op, argument, `have shape ${layout}, both at least 1`, `shape ${shapeText(matrix.shape)}`);
  }
  return matrix;
}

/** Checks that a tensor has rank 1 or higher and rows of `size`, which `what` explains. */
export function checkInner(op: string, argument: string, tensor: tf.Tensor, size: number, what: string): void {
  if (tensor.rank === 0) fail(op, argument, 'have rank 1 or higher', 'a scalar');
  if (tensor.shape[tensor.rank - 1] !== size) {
    fail(op, argument, `have inner size ${size} (${what})`, `shape ${shapeText(tensor.shape)}`);
  }
}

export function checkInteger(op: string, argument: string, value: unknown, low: number, high: number): void {
  if (!Number.isInteger(value) || (value as number) < low || (value as number) > high) {
    fail(op, argument, `be an integer in [${low}, ${high}]`, describe(value));
  }
}

export function checkBoolean(op: string, argument: string, value: unknown): void {
  if (typeof value !== 'boolean') fail(op, argument, 'be true or false', describe(value));
}

/** Options are an object with no other keys than `known`: a misspelt option must not be ignored. */
export function checkOptions(op: string, options: unknown, known: readonly string[], argument = 'options'): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options) || options instanceof tf.Tensor) {
    fail(op, argument, 'be an object', describe(options));
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown !== undefined) fail(op, argument, `have no other keys than ${known.join(', ')}`, `'${unknown}'`);
}
