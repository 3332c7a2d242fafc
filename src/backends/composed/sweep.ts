import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadAttrs } from '../../kernel_names';
import { makeEpilogue } from '../cpu/epilogue';
import { read } from '../cpu/io';
import { weightReader } from '../cpu/scores';
import type { Sweep } from '../cpu/sweep';
import { sweepPlain, vocabSizeOf } from '../cpu/sweep';

/** Elements of weights and of scores that exist at a time; the chunk depends on nothing but the hidden size. */
const CHUNK_ELEMENTS = 1 << 22;
const MAX_CHUNK = 8192;
const MAX_ROWS = CHUNK_ELEMENTS / MAX_CHUNK;

/** Weights [first, first + count) of the vocabulary as a float32 matrix, laid out as `transposeWeight` says. */
type ChunkReader = (first: number, count: number) => tf.Tensor2D;

function chunkReader(weight: tf.Tensor2D, hiddenSize: number, attrs: LmHeadAttrs): ChunkReader {
  if (attrs.format === 'float32') {
    return attrs.transposeWeight
      ? (first, count) => tf.slice(weight, [0, first], [hiddenSize, count])
      : (first, count) => tf.slice(weight, [first, 0], [count, hiddenSize]);
  }
  // tfjs has no 16-bit type, and on 'webgl' an int32 keeps only 24 bits once it is a texture: so unpack here.
  const readRow = weightReader({ ...attrs, hiddenSize, vocabSize: weight.shape[0], weight: read(weight) });
  return (first, count) => {
    const chunk = new Float32Array(count * hiddenSize);
    for (let row = 0; row < count; row++) {
      readRow(first + row, chunk.subarray(row * hiddenSize, (row + 1) * hiddenSize));
    }
    return tf.tensor2d(chunk, [count, hiddenSize]);
  };
}

/**
 * Dense: tf.matMul of one chunk of the vocabulary after the other; no [rows, vocabulary] tensor ever exists. What is made of
 * the scores runs in TypeScript, for tf.topk ranks NaN differently from backend to backend. Binary has to give the same
 * bits everywhere, and a backend whose floats have 16 bits cannot keep the bound on dense scores: both take the plain path.
 * Where only some scores are asked for, chunks without any are left out, but none is cut: matrices of other shapes might
 * give other bits.
 */
export const sweepChunks: Sweep = (inputs, attrs, offer, asked) => {
  if (attrs.format === 'binary' || tf.backend().floatPrecision() !== 32) {
    sweepPlain(inputs, attrs, offer, asked);
    return;
  }
  // The engine hands the tensors of `runKernel` through, typed as the TensorInfo that they also are.
  const hidden = inputs.hidden as tf.Tensor;
  const hiddenSize = hidden.shape[hidden.rank - 1];
  const rows = tf.util.sizeFromShape(hidden.shape.slice(0, -1));
  const vocabSize = vocabSizeOf(inputs, attrs);
  const readChunk = chunkReader(inputs.weight as tf.Tensor2D, hiddenSize, attrs);
  const epilogue = makeEpilogue(inputs, attrs);
  const chunk = Math.max(1, Math.min(MAX_CHUNK, Math.floor(CHUNK_ELEMENTS / hiddenSize)));
  for (let first = 0; first < vocabSize; first += chunk) {
    const count = Math.min(chunk, vocabSize - first);
    const places = Array.from({ length: count }, (_, i) => first + i).filter((place) => asked?.has(place) ?? true);
    if (places.length === 0) continue;
    tf.tidy(() => {
      const weights = readChunk(first, count);
      const matrix = tf.reshape<tf.Rank.R2>(hidden, [rows, hiddenSize]);
      for (let begin = 0; begin < rows; begin += MAX_ROWS) {
        const end = Math.min(rows, begin + MAX_ROWS);
        const block = tf.slice(matrix, [begin, 0], [end - begin, hiddenSize]);
        const scores = tf.matMul(block, weights, false, !attrs.transposeWeight).dataSync();
        const rowsOfBlock = Array.from({ length: end - begin }, (_, i) => begin + i);
        for (const place of places) {
          const rowsOfPlace = asked?.get(place)?.filter((row) => row >= begin && row < end) ?? rowsOfBlock;
          for (const row of rowsOfPlace) {
            offer(row, place, epilogue(row, place, scores[(row - begin) * count + place - first]));
          }
        }
      }
    });
  }
};
