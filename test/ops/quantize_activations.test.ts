import * as fc from 'fast-check';
import * as tf from '@tensorflow/tfjs-core';
import { quantizeActivations } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { AWKWARD_ROWS, awkwardRows, randomFloats } from '../cases';
import { quantizeRows } from '../reference';
import { bitsOf } from './take';

/** The op's answer as numbers, its tensors disposed. */
function quantized(hidden: tf.Tensor | tf.TensorLike) {
  const { q, scale } = quantizeActivations(hidden);
  const taken = { q: Array.from(q.dataSync()), scale: Array.from(scale.dataSync()), shapes: [q.shape, scale.shape] };
  expect([q.dtype, scale.dtype]).toEqual(['int32', 'float32']);
  tf.dispose([q, scale]);
  return taken;
}

function expectReference(hidden: Float32Array, hiddenSize: number): void {
  const tensor = tf.tensor2d(hidden, [hidden.length / hiddenSize, hiddenSize]);
  const { q, scale } = quantized(tensor);
  tensor.dispose();
  const expected = quantizeRows(hidden, hiddenSize);
  expect(bitsOf(scale)).toEqual(bitsOf(expected.scale));
  expect(q.map((x) => x + 0)).toEqual([...expected.q]);
}

describeEachBackend('quantizeActivations', () => {
  it('knows rows that were worked out by hand', () => {
    expect(quantized([1, -0.5, 254]).q).toEqual([0, 0, 127]);
    expect(quantized([127, 0.5, 1.5, 2.5, -0.5, -1.5, -126.6]).q).toEqual([127, 0, 2, 2, 0, -2, -127]);
    expect(
      quantized([
        [0, 0],
        [-3, 1],
        [NaN, 1],
        [1, -Infinity],
      ]),
    ).toEqual({
      q: [0, 0, -127, 42, 0, 0, 0, 0],
      scale: [0, Math.fround(3 / 127), NaN, NaN],
      shapes: [[4, 2], [4]],
    });
  });

  it.each([
    [1, 1],
    [3, 33],
    [64, 384],
    [5, 5120],
    [2, 16384],
    [3000, 7],
  ])('has the bits of the reference on %i random rows of %i', (rows, hiddenSize) => {
    expectReference(randomFloats(rows * hiddenSize, rows), hiddenSize);
  });

  it('has them on rows that are zero, tiny, huge, of halves, or not finite', () => {
    expectReference(awkwardRows(96), 96);
    expect(quantizeRows(awkwardRows(96), 96).scale.filter(Number.isNaN)).toHaveLength(3);
    expect(AWKWARD_ROWS).toBe(awkwardRows(96).length / 96);
  });

  it('has them on any row', () => {
    fc.assert(
      fc.property(fc.array(fc.float(), { minLength: 1, maxLength: 40 }), (row) =>
        expectReference(Float32Array.from(row), row.length),
      ),
      { numRuns: 100, seed: 3 },
    );
  });

  it('keeps leading dimensions, and takes a single row', () => {
    expect(quantized(tf.ones([2, 3, 4])).shapes).toEqual([
      [2, 3, 4],
      [2, 3],
    ]);
    expect(quantized([1, 2])).toEqual({ q: [64, 127], scale: [Math.fround(2 / 127)], shapes: [[2], []] });
    expect(quantized(tf.zeros([0, 5])).shapes).toEqual([[0, 5], [0]]);
  });
});
