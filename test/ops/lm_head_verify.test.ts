import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat, LmHeadVerifyOptions, LmHeadVerifyResult } from 'tfjs-lm-head';
import { LmHead, lmHeadSample, lmHeadTopK, lmHeadVerify } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { FORMATS, randomFloats } from '../cases';
import { inAllRanks } from '../simulated_ranks';

const [SEQUENCES, N, HIDDEN_SIZE, VOCAB_SIZE] = [5, 4, 64, 150];

/** The numbers of a result, which is disposed. */
function read({ accepted, next }: LmHeadVerifyResult): { accepted: number[]; next: number[] } {
  const numbers = { accepted: [...accepted.dataSync()], next: [...next.dataSync()] };
  tf.dispose([accepted, next]);
  return numbers;
}

/** Hidden [SEQUENCES, N + 1, HIDDEN_SIZE] and a head. */
function makeInputs(format: HeadFormat) {
  const weight = tf.tensor2d(randomFloats(VOCAB_SIZE * HIDDEN_SIZE, 1), [VOCAB_SIZE, HIDDEN_SIZE]);
  const head =
    format === 'binary' ? LmHead.binarize(weight, { groupSize: 32 }) : LmHead.dense(weight, { dtype: format });
  const h = randomFloats(SEQUENCES * (N + 1) * HIDDEN_SIZE, 2);
  const hidden = tf.tensor3d(h, [SEQUENCES, N + 1, HIDDEN_SIZE]);
  const dispose = () => {
    tf.dispose([weight, hidden]);
    head.dispose();
  };
  return { weight, head, hidden, dispose };
}

/** What lmHeadSample gives token by token: [position][sequence]. */
function samplesOf(hidden: tf.Tensor3D, head: LmHead, options: LmHeadVerifyOptions): number[][] {
  const { step = 0 } = options;
  return Array.from({ length: hidden.shape[1] }, (_, i) =>
    tf.tidy(() => {
      const ofPosition = tf.squeeze(tf.slice(hidden, [0, i, 0], [-1, 1, -1]), [1]);
      return [...lmHeadSample(ofPosition, head, { ...options, step: step + i }).ids.dataSync()];
    }),
  );
}

/** A draft that equals the samples of sequence s up to position s, and differs there. */
function draftOf(samples: number[][]): Int32Array {
  return Int32Array.from({ length: SEQUENCES * N }, (_, i) => {
    const [sequence, position] = [Math.floor(i / N), i % N];
    return position === sequence ? (samples[position][sequence] + 1) % VOCAB_SIZE : samples[position][sequence];
  });
}

describeEachBackend('lmHeadVerify', () => {
  describe.each(FORMATS)('%s', (format) => {
    it('gives the tokens that lmHeadSample gives without a draft', () => {
      const { head, hidden, dispose } = makeInputs(format);
      for (const options of [
        { seed: 3 },
        { seed: 4, step: 2 ** 32 - 2, temperature: 2, softCap: 3 },
        { seed: 2 ** 50, step: 2 ** 53 - 1 - N, temperature: 0.5, rowIds: [9, 9, 2 ** 31 - 1, 0, 4] },
        { seed: 5, temperature: 0 },
      ]) {
        const samples = samplesOf(hidden, head, options);
        const draft = tf.tensor2d(draftOf(samples), [SEQUENCES, N], 'int32');
        const { accepted, next } = read(lmHeadVerify(hidden, head, draft, options));
        expect(accepted).toEqual([0, 1, 2, 3, 4]);
        expect(next).toEqual(accepted.map((position, sequence) => samples[position][sequence]));
        draft.dispose();
      }
      dispose();
    });

    it('gives the same over shards', () => {
      const { weight, head, hidden, dispose } = makeInputs(format);
      const options: LmHeadVerifyOptions = { seed: 6, step: 7, temperature: 1.5, rowIds: [4, 3, 2, 1, 0] };
      const draft = tf.tensor2d(draftOf(samplesOf(hidden, head, options)), [SEQUENCES, N], 'int32');
      const expected = read(lmHeadVerify(hidden, head, draft, options));
      const groupSize = format === 'binary' ? 32 : undefined;
      for (const worldSize of [2, 8]) {
        const shards = Array.from({ length: worldSize }, (_, rank) =>
          LmHead.shard(weight, { rank, worldSize, format, groupSize }),
        );
        const actual = inAllRanks(worldSize, (group) =>
          read(lmHeadVerify(hidden, shards[group.rank], draft, { ...options, group })),
        );
        actual.forEach((numbers) => expect(numbers).toEqual(expected));
        shards.forEach((shard) => shard.dispose());
      }
      draft.dispose();
      dispose();
    });

    it('takes options a position, and masks that leave nothing', () => {
      const { head, hidden, dispose } = makeInputs(format);
      const words = Math.ceil(VOCAB_SIZE / 32);
      const mask = new Int32Array(SEQUENCES * (N + 1) * words).fill(0x11111111);
      mask.fill(0, ((N + 1) * 3 + 1) * words, ((N + 1) * 3 + 2) * words); // position 1 of sequence 3
      const temperature = Float32Array.from({ length: SEQUENCES * (N + 1) }, (_, row) => row % (N + 1));
      const given = {
        seed: 8,
        mask: tf.tensor3d(mask, [SEQUENCES, N + 1, words], 'int32'),
        temperature: tf.tensor2d(temperature, [SEQUENCES, N + 1]),
      };
      const samples = Array.from({ length: N + 1 }, (_, i) =>
        tf.tidy(() => {
          const at = (tensor: tf.Tensor) => tf.gather(tensor, i, 1);
          const options = { seed: 8, step: i, mask: at(given.mask), temperature: at(given.temperature) };
          return [...lmHeadSample(at(hidden), head, options).ids.dataSync()];
        }),
      );
      expect(samples[1][3]).toBe(-1);
      const draft = draftOf(samples);
      draft[3 * N + 1] = 0;
      for (const shape of [
        [SEQUENCES, N],
        [1, SEQUENCES, N],
      ]) {
        const hiddenOfShape = tf.reshape(hidden, [...shape.slice(0, -1), N + 1, HIDDEN_SIZE]);
        const ids = tf.tensor2d(draft, [SEQUENCES, N], 'int32');
        const options = {
          seed: 8,
          mask: tf.reshape(given.mask, [SEQUENCES * (N + 1), words]),
          temperature: tf.reshape(given.temperature, [SEQUENCES * (N + 1)]),
        };
        const result = lmHeadVerify(hiddenOfShape, head, ids, options);
        expect([result.accepted.shape, result.next.shape]).toEqual([shape.slice(0, -1), shape.slice(0, -1)]);
        const { accepted, next } = read(result);
        expect(accepted).toEqual([0, 1, 2, 1, 4]);
        expect(next).toEqual(accepted.map((position, sequence) => samples[position][sequence]));
        expect(next[3]).toBe(-1);
        tf.dispose([hiddenOfShape, ids, options.mask, options.temperature]);
      }
      tf.dispose([given.mask, given.temperature]);
      dispose();
    });
  });

  it('verifies greedily at temperature 0', () => {
    const { head, hidden, dispose } = makeInputs('float32');
    const { values, indices } = lmHeadTopK(hidden, head, 1);
    const best = indices.dataSync();
    const draft = Int32Array.from({ length: SEQUENCES * N }, (_, i) => best[Math.floor(i / N) * (N + 1) + (i % N)]);
    const ids = tf.tensor2d(draft, [SEQUENCES, N], 'int32');
    const { accepted, next } = read(lmHeadVerify(hidden, head, ids, { seed: 9, temperature: 0 }));
    expect(accepted).toEqual(new Array(SEQUENCES).fill(N));
    expect(next).toEqual(accepted.map((_, sequence) => best[sequence * (N + 1) + N]));
    tf.dispose([values, indices, ids]);
    dispose();
  });

  it('accepts nothing behind the first difference, and knows ids of any size', () => {
    const weight = tf.tensor2d([0, 1, 0], [3, 1]);
    const vocabStart = 2 ** 31 - 4;
    const best = vocabStart + 1;
    const verify = (draft: number[]) =>
      read(lmHeadVerify(tf.ones([draft.length + 1, 1]), weight, draft, { seed: 1, temperature: 0, vocabStart }));
    expect(verify([best, best, best])).toEqual({ accepted: [3], next: [best] });
    expect(verify([best, best - 1, best])).toEqual({ accepted: [1], next: [best] });
    expect(verify([best + 1, best, best])).toEqual({ accepted: [0], next: [best] });
    weight.dispose();
  });

  it('takes one sequence, an empty draft, and no sequences', () => {
    const { head, hidden, dispose } = makeInputs('bfloat16');
    tf.tidy(() => {
      const first = tf.squeeze(tf.slice(hidden, [0, 0, 0], [1, N + 1, -1]), [0]);
      const one = lmHeadVerify(first, head, [1, 2, 3, 4], { seed: 10 });
      expect([one.accepted.shape, one.next.shape]).toEqual([[], []]);
      expect([one.accepted.dtype, one.next.dtype]).toEqual(['int32', 'int32']);
      const same = lmHeadVerify(tf.expandDims(first), head, [[1, 2, 3, 4]], { seed: 10, rowIds: [0] });
      expect(read(same)).toEqual(read(one));

      const short = tf.slice<tf.Rank.R3, tf.Tensor3D>(hidden, [0, 0, 0], [-1, 1, -1]);
      const none = lmHeadVerify(short, head, tf.zeros([SEQUENCES, 0], 'int32'), { seed: 10 });
      expect([none.accepted.shape, none.accepted.dtype]).toEqual([[SEQUENCES], 'int32']);
      expect(read(none)).toEqual({
        accepted: new Array(SEQUENCES).fill(0),
        next: samplesOf(short, head, { seed: 10 })[0],
      });

      const empty = lmHeadVerify(tf.zeros([0, 3, HIDDEN_SIZE]), head, tf.zeros([0, 2], 'int32'), { seed: 10 });
      expect([empty.accepted.shape, empty.next.shape]).toEqual([[0], [0]]);
    });
    dispose();
  });
});
