import type { Matrix } from './safetensors';

/** Tokens that a hidden vector is made of. */
const WINDOW = 8;

/**
 * Vectors as a model might have them in front of its head: each the mean of the vectors of a few neighbouring tokens of a
 * text, normalized. The windows are spread evenly over the text.
 */
export function hiddenVectors(embeddings: Matrix, tokens: readonly number[], rows: number): Float32Array {
  const windows = tokens.length - WINDOW + 1;
  if (windows < rows) {
    throw new Error(`A text of ${tokens.length} tokens is too short for ${rows} different vectors.`);
  }
  const { columns, values } = embeddings;
  const hidden = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const first = Math.floor((row * windows) / rows);
    const vector = hidden.subarray(row * columns, (row + 1) * columns);
    for (const token of tokens.slice(first, first + WINDOW)) {
      for (let i = 0; i < columns; i++) vector[i] += values[token * columns + i];
    }
    const norm = Math.hypot(...vector);
    for (let i = 0; i < columns; i++) vector[i] /= norm;
  }
  return hidden;
}
