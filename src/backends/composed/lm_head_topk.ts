import * as tf from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { read } from '../cpu/io';
import { lmHeadTopKPlain, Selection } from '../cpu/lm_head_topk';
import { weightReader } from '../cpu/scores';

/** Elements of weights and of scores that exist at a time; the chunk depends on nothing but the hidden size. */
const CHUNK_ELEMENTS = 1 << 22;
const MAX_CHUNK = 8192;
const MAX_ROWS = CHUNK_ELEMENTS / MAX_CHUNK;

/** Weights [first, first + count) of the vocabulary as a float32 matrix, laid out as `transposeWeight` says. */
type ChunkReader = (first: number, count: number) => tf.Tensor2D;

function chunkReader(weight: tf.Tensor2D, hiddenSize: number, attrs: LmHeadTopKAttrs): ChunkReader {
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
 * Dense: tf.matMul of one chunk of the vocabulary after the other; no [rows, vocabulary] tensor ever exists. The
 * selection runs in TypeScript, for tf.topk ranks NaN differently from backend to backend. Binary has to give the same
 * bits everywhere, and a backend whose floats have 16 bits cannot keep the bound on dense scores: both take the plain path.
 */
function lmHeadTopK(inputs: LmHeadTopKInputs, attrs: LmHeadTopKAttrs): tf.Tensor[] {
  if (attrs.format === 'binary' || tf.backend().floatPrecision() !== 32) return lmHeadTopKPlain(inputs, attrs);
  // The engine hands the tensors of `runKernel` through, typed as the TensorInfo that they also are.
  const weight = inputs.weight as tf.Tensor2D;
  const hidden = inputs.hidden as tf.Tensor;
  const hiddenSize = hidden.shape[hidden.rank - 1];
  const rows = tf.util.sizeFromShape(hidden.shape.slice(0, -1));
  const vocabSize = weight.shape[attrs.transposeWeight ? 1 : 0];
  const readChunk = chunkReader(weight, hiddenSize, attrs);
  const selection = new Selection(inputs, attrs);
  const chunk = Math.max(1, Math.min(MAX_CHUNK, Math.floor(CHUNK_ELEMENTS / hiddenSize)));
  for (let first = 0; first < vocabSize; first += chunk) {
    const count = Math.min(chunk, vocabSize - first);
    tf.tidy(() => {
      const weights = readChunk(first, count);
      const matrix = tf.reshape<tf.Rank.R2>(hidden, [rows, hiddenSize]);
      for (let row = 0; row < rows; row += MAX_ROWS) {
        const block = tf.slice(matrix, [row, 0], [Math.min(MAX_ROWS, rows - row), hiddenSize]);
        const scores = tf.matMul(block, weights, false, !attrs.transposeWeight).dataSync();
        for (let i = 0; i < scores.length; i += count) {
          for (let id = 0; id < count; id++) selection.offer(row + i / count, first + id, scores[i + id]);
        }
      }
    });
  }
  return selection.result();
}

export const lmHeadTopKConfig: tf.KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'composed',
  kernelFunc: ({ inputs, attrs }) => lmHeadTopK(inputs as LmHeadTopKInputs, attrs as unknown as LmHeadTopKAttrs),
};
