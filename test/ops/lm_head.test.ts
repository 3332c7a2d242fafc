import * as fc from 'fast-check';
import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { halfTable, roundHalfEven, toHalf } from '../../src/common/half';
import { activate, describeEachBackend, GPU_MODE } from '../backends';
import { FORMATS, randomFloats, randomSigns } from '../cases';
import type { Half } from '../reference';
import { packSigns, roundToHalf } from '../reference';

const HALVES = ['bfloat16', 'float16'] as const;

/** Two elements a word, the lower column in the lower half; unpacked with the sign of zero, and NaN as NaN. */
function unpack(words: ArrayLike<number>, format: Half): number[] {
  return Array.from(words).flatMap((word) => [halfTable(format)[word & 0xffff], halfTable(format)[word >>> 16]]);
}

/** The numbers of `head.unpack()`, its tensors disposed. */
function takeUnpacked(head: LmHead): { bits: number[]; scales: number[] } {
  const { bits, scales } = head.unpack();
  const taken = { bits: Array.from(bits.dataSync()), scales: Array.from(scales.dataSync()) };
  tf.dispose([bits, scales]);
  return taken;
}

/** Floats at and around every border of the 16-bit formats. */
// prettier-ignore
const AWKWARD = [
  0, -0, 1, -1, 1 / 3, 65504, 65519.996, -65519.996, 2 ** -14, 2 ** -24, 2 ** -25, 2 ** -25 * 1.0001, 3 * 2 ** -25,
  2 ** -14 - 2 ** -25, 2 ** -14 - 2 ** -26, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 1 + 2 ** -11 + 2 ** -20, 1 + 2 ** -8,
  1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -20, 2 ** -126, 2 ** -133, 2 ** -134, 2 ** -149, NaN, Infinity, -Infinity, 2047.5, 4095,
].map(Math.fround);

describe('rounding to 16 bits', () => {
  const floats = fc.oneof(
    fc.float(),
    fc.float({ min: Math.fround(-70000), max: 70000 }),
    fc.float({ min: Math.fround(-(2 ** -13)), max: Math.fround(2 ** -13) }),
    fc.constantFrom(...AWKWARD),
  );

  it.each(HALVES)('is to the nearest %s, ties to even', (format) => {
    fc.assert(
      fc.property(floats, (x) => expect(halfTable(format)[toHalf(x, format)]).toBe(roundToHalf(x, format))),
      { numRuns: 20000, seed: 1 },
    );
  });

  it.each(HALVES)('keeps every %s as it is', (format) => {
    const table = halfTable(format);
    for (let half = 0; half < 0x10000; half++) {
      if (Number.isNaN(table[half])) expect(table[toHalf(NaN, format)]).toBeNaN();
      else expect(toHalf(table[half], format)).toBe(half);
    }
  });

  it('rounds halves of either sign to even', () => {
    expect([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49, -0.51].map(roundHalfEven).map((x) => x + 0)).toEqual([
      0, 2, 2, 0, -2, -2, 0, -1,
    ]);
  });
});

describeEachBackend('LmHead', (backend) => {
  describe.each(HALVES)('dense %s', (format) => {
    it('packs two elements a word, and pads rows to 16 bytes with zeros', () => {
      for (const hiddenSize of [1, 2, 7, 8, 9, 30]) {
        const weights = Float32Array.from({ length: 5 * hiddenSize }, (_, i) => AWKWARD[(i * 7) % AWKWARD.length]);
        for (const transposed of [false, true]) {
          tf.tidy(() => {
            const matrix = tf.tensor2d(weights, [5, hiddenSize]);
            const given = transposed ? tf.transpose(matrix) : matrix;
            const head = LmHead.dense(given, { dtype: format, transposed });
            const words = 4 * Math.ceil(hiddenSize / 8);
            expect([head.format, head.vocabSize, head.hiddenSize]).toEqual([format, 5, hiddenSize]);
            expect(head.tensors.weight.shape).toEqual([5, words]);
            expect(head.tensors.weight.dtype).toBe('int32');
            expect(head.bytes).toBe(5 * words * 4);
            const unpacked = unpack(head.tensors.weight.dataSync(), format);
            const expected = Array.from({ length: 5 * 2 * words }, (_, i) => {
              const [row, column] = [Math.floor(i / (2 * words)), i % (2 * words)];
              return column < hiddenSize ? roundToHalf(weights[row * hiddenSize + column], format) : 0;
            });
            expect(unpacked).toEqual(expected);
            head.dispose();
          });
        }
      }
    });

    it('keeps a NaN a NaN whatever its payload', () => {
      const weights = new Float32Array(new Uint32Array([0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff]).buffer);
      const head = LmHead.dense(tf.tensor2d(weights, [4, 1]), { dtype: format });
      const unpacked = unpack(head.tensors.weight.dataSync(), format);
      expect([0, 8, 16, 24].map((i) => unpacked[i])).toEqual([NaN, NaN, NaN, NaN]);
      head.dispose();
    });

    it('packs random numbers of any size exactly', () => {
      fc.assert(
        fc.property(
          fc.array(fc.float({ noNaN: true, min: -60000, max: 60000 }), { minLength: 1, maxLength: 40 }),
          (row) => {
            const head = LmHead.dense([row], { dtype: format });
            const unpacked = unpack(head.tensors.weight.dataSync(), format).slice(0, row.length);
            head.dispose();
            expect(unpacked).toEqual(row.map((x) => roundToHalf(x, format)));
          },
        ),
        { numRuns: 50, seed: 2 },
      );
    });
  });

  it('keeps a float32 matrix without a copy, transposed or not', () => {
    const weight = tf.tensor2d([1, 2, 3, 4, 5, 6], [2, 3]);
    const { numDataBuffers } = tf.memory();
    const head = LmHead.dense(weight);
    const transposed = LmHead.dense(weight, { transposed: true });
    expect(tf.memory().numDataBuffers).toBe(numDataBuffers);
    expect([head.vocabSize, head.hiddenSize, head.bytes]).toEqual([2, 3, 24]);
    expect([transposed.vocabSize, transposed.hiddenSize, transposed.bytes]).toEqual([3, 2, 24]);
    weight.dispose();
    expect(Array.from(head.tensors.weight.dataSync())).toEqual([1, 2, 3, 4, 5, 6]);
    head.dispose();
    transposed.dispose();
    expect(tf.memory().numDataBuffers).toBe(numDataBuffers - 1);
  });

  it('takes matrices whose rank the type does not tell, as layer.getWeights() returns them', () => {
    const weight: tf.Tensor = tf.tensor([1, 2, 3, 4], [2, 2]);
    const bias: tf.Tensor = tf.tensor([0, -3]);
    tf.tidy(() => {
      const head = LmHead.dense(weight, { bias });
      expect(Array.from(lmHeadTopK([[1, 1]], head, 1).indices.dataSync())).toEqual([1]);
      expect(Array.from(lmHeadTopK([[1, 1]], weight, 1, { bias }).values.dataSync())).toEqual([4]);
      expect(() => lmHeadTopK([[1, 1]], bias, 1)).toThrow("argument 'head' must have shape [vocabulary, hidden]");
      head.dispose();
    });
    tf.dispose([weight, bias]);
  });

  it('ends with the block that uses it', () => {
    const { numTensors } = tf.memory();
    let outside: LmHead;
    {
      using head = LmHead.dense([[1, 2]], { bias: [3] });
      outside = head;
      expect(outside.isDisposed).toBe(false);
    }
    expect(outside.isDisposed).toBe(true);
    expect(tf.memory().numTensors).toBe(numTensors);
  });

  it('keeps bits, and rounds scales to float16', () => {
    const [vocabSize, hiddenSize, groupSize] = [4, 96, 32];
    const bits = packSigns(randomSigns(vocabSize * hiddenSize, 3));
    const scales = randomFloats(vocabSize * 3, 4);
    scales[5] = 65519;
    const [bitsTensor, scalesTensor] = [tf.tensor2d(bits, [4, 3], 'int32'), tf.tensor2d(scales, [4, 3])];
    const head = LmHead.binary({ bits: bitsTensor, scales: scalesTensor, groupSize });
    tf.dispose([bitsTensor, scalesTensor]);
    expect([head.format, head.vocabSize, head.hiddenSize, head.groupSize]).toEqual(['binary', 4, 96, 32]);
    const unpacked = takeUnpacked(head);
    expect(unpacked.bits).toEqual([...bits]);
    expect(unpacked.scales).toEqual(Array.from(scales, (x) => roundToHalf(x, 'float16')));
    head.dispose();
  });

  it('takes signs and mean magnitudes when it binarizes', () => {
    const [vocabSize, hiddenSize, groupSize] = [3, 128, 64];
    const weights = randomFloats(vocabSize * hiddenSize, 5);
    weights[1] = 0;
    weights[2] = -0;
    weights[3] = -1e-40;
    weights.fill(0, hiddenSize, 2 * hiddenSize); // a row that is all zero
    const bias = [1, 2, 3];
    const head = LmHead.binarize(tf.tensor2d(weights, [vocabSize, hiddenSize]), { groupSize, bias });
    const signs = Int8Array.from(weights, (w) => (w < 0 ? -1 : 1));
    const means = Array.from({ length: 6 }, (_, group) => {
      const sum = weights.subarray(group * groupSize, (group + 1) * groupSize).reduce((s, w) => s + Math.abs(w), 0);
      return roundToHalf(Math.fround(sum / groupSize), 'float16');
    });
    expect(takeUnpacked(head)).toEqual({ bits: [...packSigns(signs)], scales: means });
    head.dispose();
  });

  // whole tiles of 256 ids, blocks of 4 words of bits, and quads of 2-byte scales
  it.each([
    [1000, 512, 128, 4 * 256 * (16 * 4 + 4 * 2)],
    [256, 128, 128, 256 * (4 * 4 + 4 * 2)],
    [257, 160, 32, 2 * 256 * (8 * 4 + 8 * 2)],
    [1, 32, 32, 256 * (4 * 4 + 4 * 2)],
  ])(
    'says how many bytes %i x %i in groups of %i take when they are packed',
    (vocabSize, hiddenSize, groupSize, bytes) => {
      const weight = tf.ones<tf.Rank.R2>([vocabSize, hiddenSize]);
      const plain = LmHead.binarize(weight, { groupSize });
      const biased = LmHead.binarize(weight, { groupSize, bias: new Float32Array(vocabSize) });
      expect([plain.bytes, biased.bytes]).toEqual([bytes, bytes + 4 * vocabSize]);
      tf.dispose(weight);
      for (const head of [plain, biased]) head.dispose();
    },
  );

  it('has a group size of 128 unless told', () => {
    const head = LmHead.binarize(tf.ones([2, 256]));
    const { bits, scales } = head.unpack();
    expect([head.groupSize, scales.shape]).toEqual([128, [2, 2]]);
    const same = LmHead.binary({ bits, scales });
    expect(same.groupSize).toBe(128);
    tf.dispose([bits, scales]);
    head.dispose();
    same.dispose();
  });

  it.each(FORMATS)('%s: outlives a tidy and what it was made from, and ends with dispose', (format) => {
    const before = tf.memory().numTensors;
    let head!: LmHead;
    tf.tidy(() => {
      const weight = tf.tensor2d(randomFloats(10 * 64, 6), [10, 64]);
      const options = { bias: tf.zeros<tf.Rank.R1>([10]) };
      head =
        format === 'binary'
          ? LmHead.binarize(weight, { ...options, groupSize: 32 })
          : LmHead.dense(weight, { dtype: format, ...options });
    });
    expect(tf.memory().numTensors).toBe(before + 2);
    expect(head.isDisposed).toBe(false);
    const { values, indices } = lmHeadTopK(tf.ones([64]), head, 2);
    expect(values.shape).toEqual([2]);
    tf.dispose([values, indices]);
    head.dispose();
    expect(head.isDisposed).toBe(true);
    head.dispose();
    expect(tf.memory().numTensors).toBe(before + 1); // the ones above
    expect(head.bytes).toBeGreaterThan(0);
  });

  it('keeps NaN and infinities of dense weights', () => {
    for (const dtype of ['float32', ...HALVES] as const) {
      const head = LmHead.dense([[1], [NaN], [Infinity], [-Infinity]], { dtype });
      const { values, indices } = lmHeadTopK([1], head, 4);
      expect(indices.arraySync()).toEqual([1, 2, 0, 3]);
      expect(values.arraySync()).toEqual([NaN, Infinity, 1, -Infinity]);
      head.dispose();
    }
  });

  describe('shards', () => {
    const ranges = (vocabSize: number, worldSize: number, multipleOf?: number) =>
      Array.from({ length: worldSize }, (_, rank) => {
        const { begin, end } = LmHead.shardRange(vocabSize, { rank, worldSize, multipleOf });
        return [begin, end];
      });

    it('are equal slices of the padded vocabulary, without the padding', () => {
      expect(ranges(131072, 4)).toEqual([0, 1, 2, 3].map((rank) => [32768 * rank, 32768 * (rank + 1)]));
      expect(ranges(32001, 4)).toEqual(
        [0, 8016, 16032, 24048, 32001].flatMap((end, i, all) => (i ? [[all[i - 1], end]] : [])),
      );
      expect(ranges(32001, 2, 256)).toEqual([
        [0, 16128],
        [16128, 32001],
      ]);
      expect(ranges(100, 3)).toEqual([
        [0, 64],
        [64, 100],
        [100, 100],
      ]);
      expect(ranges(65, 4)).toEqual([
        [0, 32],
        [32, 64],
        [64, 65],
        [65, 65],
      ]);
      expect(ranges(10, 3, 1)).toEqual([
        [0, 4],
        [4, 8],
        [8, 10],
      ]);
      expect(ranges(7, 1)).toEqual([[0, 7]]);
    });

    it('cover every vocabulary once, with slices that are equal as far as it goes', () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 5000 }),
          fc.integer({ min: 1, max: 16 }),
          fc.integer({ min: 1, max: 130 }),
          (vocabSize, worldSize, multipleOf) => {
            const all = ranges(vocabSize, worldSize, multipleOf);
            const slice = (all[0][1] === vocabSize ? undefined : all[0][1]) ?? vocabSize;
            expect(all.map(([begin]) => begin)).toEqual(all.map((_, rank) => Math.min(vocabSize, rank * slice)));
            expect(all.map(([, end]) => end)).toEqual(all.map((_, rank) => Math.min(vocabSize, (rank + 1) * slice)));
            if (slice < vocabSize) expect((slice * worldSize) % multipleOf).toBe(0);
          },
        ),
        { numRuns: 500, seed: 3 },
      );
    });

    it.each(FORMATS)('%s: hold the rows of their range, and know their place', (format) => {
      const weights = randomFloats(100 * 64, 9);
      const bias = randomFloats(100, 10);
      const weight = tf.tensor2d(weights, [100, 64]);
      const groupSize = format === 'binary' ? 32 : undefined;
      const before = tf.memory().numTensors;
      const heads = [0, 1, 2].map((rank) => LmHead.shard(weight, { rank, worldSize: 3, format, groupSize, bias }));
      expect(heads.map((head) => [head.format, head.vocabStart, head.vocabSize, head.wholeVocabSize])).toEqual([
        [format, 0, 64, 100],
        [format, 64, 36, 100],
        [format, 100, 0, 100],
      ]);
      expect(heads.map(({ hiddenSize }) => hiddenSize)).toEqual([64, 64, 64]);
      expect(heads[2].bytes).toBe(0);
      const whole =
        format === 'binary'
          ? LmHead.binarize(weight, { groupSize, bias })
          : LmHead.dense(weight, { dtype: format, bias });
      expect([whole.vocabStart, whole.wholeVocabSize]).toEqual([0, undefined]);
      tf.tidy(() => {
        const all = lmHeadTopK(tf.ones([64]), whole, 100);
        const scores = new Map(Array.from(all.indices.dataSync(), (id, i) => [id, all.values.dataSync()[i]]));
        const part = lmHeadTopK(tf.ones([64]), heads[1], 36);
        const ids = Array.from(part.indices.dataSync());
        expect([...ids].sort((a, b) => a - b)).toEqual(Array.from({ length: 36 }, (_, i) => 64 + i)); // without being told
        expect(Array.from(part.values.dataSync())).toEqual(ids.map((id) => scores.get(id)));
      });
      [...heads, whole].forEach((head) => head.dispose());
      expect(heads.every((head) => head.isDisposed)).toBe(true);
      expect(tf.memory().numTensors).toBe(before);
      weight.dispose();
    });
  });

  it('snapshots a variable', () => {
    const variable = tf.variable(tf.tensor2d([[1], [2]]));
    const head = LmHead.dense(variable);
    variable.assign(tf.tensor2d([[5], [2]]));
    expect(lmHeadTopK([1], head, 1).indices.arraySync()).toEqual([1]);
    head.dispose();
    variable.dispose();
  });

  if (!GPU_MODE && backend !== 'cpu') {
    it('follows tfjs from one backend to another', async () => {
      const weight = randomFloats(40 * 64, 7);
      const hidden = randomFloats(64, 8);
      for (const format of FORMATS) {
        const matrix = tf.tensor2d(weight, [40, 64]);
        const head =
          format === 'binary' ? LmHead.binarize(matrix, { groupSize: 32 }) : LmHead.dense(matrix, { dtype: format });
        const here = lmHeadTopK(hidden, head, 5).indices.arraySync();
        await activate('cpu');
        expect(lmHeadTopK(hidden, head, 5).indices.arraySync()).toEqual(here);
        await activate(backend);
        expect(lmHeadTopK(hidden, head, 5).indices.arraySync()).toEqual(here);
        head.dispose();
      }
    });
  }
});
