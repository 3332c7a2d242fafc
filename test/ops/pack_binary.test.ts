import * as tf from '@tensorflow/tfjs-core';
import { LmHead } from 'tfjs-lm-head';
import { toHalf } from '../../src/common/half';
import { PackBinary, UnpackBinary } from '../../src/kernel_names';
import { runKernel } from '../../src/common/run_kernel';
import { describeEachBackend } from '../backends';
import { random, randomFloats } from '../cases';
import { packedWords, roundToHalf } from '../reference';

const VOCAB_SIZES = [1, 255, 256, 257, 1000];
const HIDDEN_SIZES = [32, 96, 160, 384, 512, 640, 2304];
const SIZES = HIDDEN_SIZES.flatMap((hiddenSize) =>
  [...new Set([32, 64, 96, 128, 256, hiddenSize])]
    .filter((groupSize) => hiddenSize % groupSize === 0)
    .map((groupSize) => ({ hiddenSize, groupSize })),
);

/** Zeros of both signs, subnormals of float16, its largest numbers, and borders of its rounding. */
// prettier-ignore
const AWKWARD_SCALES = [0, -0, 2 ** -24, -(2 ** -24), 2 ** -25, 3 * 2 ** -25, 2 ** -15, 65504, -65519.996, 1 + 2 ** -11, 1e-45];

function randomWords(length: number, seed: number): Int32Array {
  const next = random(seed);
  return Int32Array.from({ length }, () => Math.floor(next() * 2 ** 32));
}

/** float32 of many magnitudes and both signs, the awkward ones among them. */
function randomScales(length: number, seed: number): Float32Array {
  return randomFloats(length, seed).map((x, i) =>
    i % 7 === 0 ? AWKWARD_SCALES[(i / 7) % AWKWARD_SCALES.length] : x * 2 ** ((i % 30) - 20),
  );
}

describeEachBackend('PackBinary and UnpackBinary', () => {
  it.each(SIZES)('are inverses, in the layout of the reference: hidden $hiddenSize, groups of $groupSize', (size) => {
    const { hiddenSize, groupSize } = size;
    for (const vocabSize of VOCAB_SIZES) {
      const [words, groups] = [hiddenSize / 32, hiddenSize / groupSize];
      const bits = randomWords(vocabSize * words, vocabSize);
      const scales = randomScales(vocabSize * groups, vocabSize + 1);
      const halves = Uint16Array.from(scales, (scale) => toHalf(scale, 'float16'));
      tf.tidy(() => {
        const parts = {
          bits: tf.tensor2d(bits, [vocabSize, words], 'int32'),
          scales: tf.tensor2d(scales, [vocabSize, groups]),
        };
        const packed = runKernel<tf.Tensor2D>(PackBinary, parts, { groupSize });
        const expected = packedWords(bits, halves, vocabSize);
        const tiles = Math.ceil(vocabSize / 256);
        expect([packed.dtype, packed.shape]).toEqual(['int32', [tiles, expected.length / tiles]]);
        expect(differences(packed.dataSync(), expected)).toEqual([]);

        const attrs = { vocabSize, hiddenSize, groupSize };
        const [newBits, newScales] = runKernel<tf.Tensor2D[]>(UnpackBinary, { packed }, attrs);
        expect([newBits.dtype, newBits.shape]).toEqual(['int32', [vocabSize, words]]);
        expect([newScales.dtype, newScales.shape]).toEqual(['float32', [vocabSize, groups]]);
        expect(differences(newBits.dataSync(), bits)).toEqual([]);
        const stored = scales.map((scale) => roundToHalf(scale, 'float16'));
        expect(differences(newScales.dataSync(), stored)).toEqual([]);

        const again = runKernel<tf.Tensor2D>(PackBinary, { bits: newBits, scales: newScales }, { groupSize });
        expect(differences(again.dataSync(), expected)).toEqual([]);
      });
    }
  });

  it('give and take the very tensor of an LmHead', () => {
    tf.tidy(() => {
      const parts = {
        bits: tf.tensor2d(randomWords(70 * 5, 1), [70, 5], 'int32'),
        scales: tf.tensor2d(randomScales(70 * 5, 2), [70, 5]),
      };
      const packed = runKernel<tf.Tensor2D>(PackBinary, parts, { groupSize: 32 });
      const head = LmHead.binary({ ...parts, groupSize: 32 });
      expect(differences(head.tensors.weight.dataSync(), packed.dataSync())).toEqual([]);
      const unpacked = head.unpack();
      expect(differences(unpacked.bits.dataSync(), parts.bits.dataSync())).toEqual([]);
      const same = LmHead.binary({ ...unpacked, groupSize: 32 });
      expect(differences(same.tensors.weight.dataSync(), packed.dataSync())).toEqual([]);
      head.dispose();
      same.dispose();
    });
  });
});

/** The first few places where two arrays differ, the sign of zero included: what jest would take long to find and to print. */
function differences(actual: ArrayLike<number>, expected: ArrayLike<number>): string[] {
  if (actual.length !== expected.length) return [`length ${actual.length}, not ${expected.length}`];
  const found: string[] = [];
  for (let i = 0; i < actual.length && found.length < 5; i++) {
    if (!Object.is(actual[i], expected[i])) found.push(`${i}: ${actual[i]}, not ${expected[i]}`);
  }
  return found;
}
