/**
 * Faults that others shipped, as small inputs with the right answer; each cites the public report. Numbers are those of
 * the list they come from. Logits are injected exactly (see `inject`); NaN and infinities come by bias.
 */
import * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat } from 'tfjs-lm-head';
import { LmHead, lmHeadTopK, localArgmaxCandidates, pickFromCandidates, vocabParallelArgmax } from 'tfjs-lm-head';
import { describeEachBackend } from '../backends';
import { binaryHead, cutShards, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { rankIds, roundToHalf } from '../reference';

interface Result {
  values: number[][];
  ids: number[][];
}

function topK(hidden: tf.Tensor | tf.TensorLike, head: LmHead | tf.Tensor2D, k: number): Result {
  const { values, indices } = lmHeadTopK(hidden, head, k);
  const result = { values: values.arraySync() as number[][], ids: indices.arraySync() as number[][] };
  tf.dispose([values, indices]);
  return result;
}

/** Top k of injected logits, one array a row; `bias` is shared by the rows. */
function injected(format: HeadFormat, logits: ArrayLike<number>[], k: number, bias?: Float32Array): Result {
  const { hidden, head, factor, dispose } = inject(format, logits, bias);
  const { values, ids } = topK(hidden, head, k);
  dispose();
  return { values: bias ? values : values.map((row) => row.map((value) => value / factor)), ids };
}

function filled(length: number, value: number, others: Record<number, number> = {}): Float32Array {
  const array = new Float32Array(length).fill(value);
  for (const [id, other] of Object.entries(others)) array[Number(id)] = other;
  return array;
}

/** The token that argmax finds in one piece, in shards by the op, and in shards by its two halves. */
function tokens(logits: Float32Array, rows: number, sizes: number[]): number[][] {
  return tf.tidy(() => {
    const shards = cutShards(logits, rows, sizes);
    let vocabStart = 0;
    const candidates = shards.map((shard) => {
      const part = localArgmaxCandidates(shard, { vocabStart });
      vocabStart += shard.shape[1];
      return part;
    });
    const whole = tf.tensor2d(logits, [rows, logits.length / rows]);
    return [
      vocabParallelArgmax(whole),
      vocabParallelArgmax(shards),
      pickFromCandidates(tf.stack(candidates) as tf.Tensor3D),
    ].map((ids) => Array.from(ids.dataSync()));
  });
}

describeEachBackend('faults that others shipped', (backend) => {
  const native = backend === 'tensorflow';

  describe.each(FORMATS)('%s', (format) => {
    // https://github.com/pytorch/pytorch/issues/27542
    it('1: the tie order does not depend on k', () => {
      const all = injected(format, [[1, 2, 5, 4, 5]], 5).ids[0];
      expect(all).toEqual([2, 4, 3, 1, 0]);
      for (let k = 1; k < 5; k++) expect(injected(format, [[1, 2, 5, 4, 5]], k).ids[0]).toEqual(all.slice(0, k));
    });

    // https://github.com/pytorch/pytorch/issues/93630
    it('3: of equal maxima the first wins', () => {
      const logits = randomIntegers(1000, -5, 3, 1);
      for (const id of [3, 517, 999]) logits[id] = 4;
      expect(injected(format, [logits], 1).ids[0]).toEqual([3]);
      expect(injected(format, [logits], 3).ids[0]).toEqual([3, 517, 999]);
    });

    // https://github.com/microsoft/onnxruntime/issues/31161
    it('7: a row that is all -inf has id 0 and -inf', () => {
      const { values, ids } = injected(format, [filled(12, 1)], 1, filled(12, -Infinity));
      expect([values, ids]).toEqual([[[-Infinity]], [[0]]]);
    });

    // https://github.com/vllm-project/vllm/pull/50183
    it('9: a row of NaN stays inside the vocabulary, and its neighbour is exact', () => {
      const vocabSize = 40000;
      const { hidden, head, factor, dispose } = inject(format, [
        filled(vocabSize, 0),
        filled(vocabSize, 1, { 31234: 2 }),
      ]);
      const nan = tf.tidy(() => tf.concat([tf.fill([1, head.hiddenSize], NaN), tf.slice(hidden, [1, 0], [1, -1])]));
      const { values, ids } = topK(nan, head, 3);
      expect(ids).toEqual([
        [0, 1, 2],
        [31234, 0, 1],
      ]);
      expect(values).toEqual([
        [NaN, NaN, NaN],
        [2 * factor, factor, factor],
      ]);
      nan.dispose();
      dispose();
    });

    // https://github.com/tensorflow/tensorflow/issues/117287
    it('10: who is in the top k does not depend on where a NaN sits', () => {
      const zeros = filled(4, 0);
      expect(injected(format, [zeros], 3, new Float32Array([NaN, 1, 2, 3])).ids[0]).toEqual([0, 3, 2]);
      expect(injected(format, [zeros], 3, new Float32Array([1, 2, 3, NaN])).ids[0]).toEqual([3, 2, 1]);
    });

    // https://github.com/tensorflow/tensorflow/issues/118647
    it('11: NaN has one rule at every length', () => {
      for (const vocabSize of [...Array.from({ length: 32 }, (_, i) => i + 2), 1000, 1023, 1024, 1025]) {
        const zeros = filled(vocabSize, 0);
        const ascending = Float32Array.from({ length: vocabSize }, (_, id) => id);
        ascending[1] = NaN;
        const expected = vocabSize === 2 ? [1, 0] : [1, vocabSize - 1];
        expect(injected(format, [zeros], 2, ascending).ids[0]).toEqual(expected);
        expect(injected(format, [zeros], 2, filled(vocabSize, NaN)).ids[0]).toEqual([0, 1]);
      }
    });

    // https://github.com/ml-explore/mlx/issues/4274
    it('12: the value is the score of the id that comes with it', () => {
      const { values, ids } = injected(format, [filled(4, 0)], 4, new Float32Array([3, NaN, 1, 5]));
      expect([values[0], ids[0]]).toEqual([
        [NaN, 5, 3, 1],
        [1, 3, 0, 2],
      ]);
    });

    // https://github.com/NVIDIA/raft/issues/1822
    it('13: -inf ids are distinct and come by id, on every path', () => {
      const bias = filled(1000, -Infinity, { 900: 3, 40: 2, 7: 1 });
      for (const k of [1, 3, 8, 32, 33, 300, 1000]) {
        const { ids } = injected(format, [filled(1000, 0)], k, bias);
        expect(ids[0]).toEqual(rankIds(bias, k));
        expect(ids[0].slice(0, 8)).toEqual([900, 40, 7, 0, 1, 2, 3, 4].slice(0, k));
      }
    });

    // https://github.com/kakaobrain/trident/pull/143
    it('17: scores may all be negative', () => {
      const logits = randomIntegers(1000, -9, -2, 2);
      logits[613] = -1;
      const { values, ids } = injected(format, [logits], 1);
      expect([values, ids]).toEqual([[[-1]], [[613]]]);
    });

    // https://github.com/NVIDIA/MatX/issues/169
    it('18: fractions are no integers', () => {
      expect(injected(format, [[0.1, 0.2, 0.3, 0.4, 0]], 1).ids).toEqual([[3]]);
    });

    // https://github.com/tensorflow/tfjs/issues/665
    it('19: the winner may stand anywhere', () => {
      for (const [vocabSize, winner] of [
        [88, 44],
        [86, 43],
        [84, 42],
      ]) {
        expect(injected(format, [filled(vocabSize, 0, { [winner]: 1 })], 1).ids).toEqual([[winner]]);
      }
      const rows = Array.from({ length: 88 }, (_, id) => filled(88, 0, { [id]: 1 }));
      expect(injected(format, rows, 1).ids).toEqual(rows.map((_, id) => [id]));
    });

    // https://github.com/plaidml/plaidml/issues/1216
    it('20: ids are wider than a byte', () => {
      const winners = [255, 256, 257, 1023, 1025, 2047, 2049, 4095];
      const rows = winners.map((id) => filled(4096, 0, { [id]: 1 }));
      expect(injected(format, rows, 1).ids).toEqual(winners.map((id) => [id]));
    });

    // https://github.com/OpenNMT/CTranslate2/pull/586
    it('22: k may be the vocabulary, and no more', () => {
      const logits = randomIntegers(100, -9, 9, 3);
      expect(injected(format, [logits], 100).ids[0]).toEqual(rankIds(logits, 100));
      expect(() => injected(format, [logits], 128)).toThrow("argument 'k' must be an integer in [0, 100], but got 128");
    });

    // https://github.com/microsoft/onnxruntime/issues/6482
    it('25: a vocabulary of one', () => {
      const logits = Array.from({ length: 32 }, (_, row) => [row - 16]);
      const { values, ids } = injected(format, logits, 1);
      expect(ids).toEqual(logits.map(() => [0]));
      expect(values).toEqual(logits);
    });

    // https://github.com/turboderp-org/exllamav2/issues/778
    it('26: the vocabulary need not be a multiple of anything', () => {
      for (let vocabSize = 40000; vocabSize <= 40007; vocabSize++) {
        const last = { [vocabSize - 1]: 1 };
        const { ids } = injected(format, [filled(vocabSize, 0), filled(vocabSize, 0), filled(vocabSize, 0, last)], 2);
        expect(ids).toEqual([
          [0, 1],
          [0, 1],
          [vocabSize - 1, 0],
        ]);
      }
    });

    // https://github.com/ggml-org/llama.cpp/issues/27021
    it('27: more than 1024 columns', () => {
      for (const vocabSize of [1024, 1025, 2048, 2049]) {
        const logits = randomIntegers(vocabSize, -100, 100, 4);
        for (const k of [1, 5]) expect(injected(format, [logits], k).ids[0]).toEqual(rankIds(logits, k));
      }
    });

    // https://github.com/lucienhuangfu/eLLM/issues/53 and https://github.com/arrayfire/arrayfire/issues/2283
    it('28, 29: k over 32 and over 256', () => {
      const logits = randomIntegers(5000, -250, 250, 5);
      const ranked = rankIds(logits, 512);
      for (const k of [31, 32, 33, 50, 64, 255, 256, 257, 512]) {
        expect(injected(format, [logits], k).ids[0]).toEqual(ranked.slice(0, k));
      }
    });

    // https://github.com/tracel-ai/cubek/pull/334
    it('30: every k is right, or throws in that very call', () => {
      const vocabSize = native ? 50257 : 5025;
      const logits = randomIntegers(vocabSize, -250, 250, 6);
      const ranked = rankIds(logits, 2050);
      const { hidden, head, dispose } = inject(format, [logits]);
      const ks =
        native && format === 'float32'
          ? Array.from({ length: 2050 }, (_, i) => i + 1)
          : [12, 13, 511, 1024, 2047, 2050];
      const wrong = ks.filter((k) => String(topK(hidden, head, k).ids[0]) !== String(ranked.slice(0, k)));
      expect(wrong).toEqual([]);
      dispose();
    });

    // https://github.com/mirage-project/mirage/issues/751
    it('32: zeros that pad the vocabulary do not win when they are masked by a bias', () => {
      const [vocabSize, columns] = native ? [151936, 153600] : [15193, 15360];
      const logits = filled(columns, 0);
      logits.set(randomIntegers(vocabSize, -5, -2, 7));
      const winner = vocabSize - 269;
      logits[winner] = -1;
      const bias = filled(columns, 0).fill(-Infinity, vocabSize);
      const { ids } = injected(format, [logits], 20, bias);
      expect(ids[0]).toEqual(rankIds(logits.subarray(0, vocabSize), 20));
      expect(ids[0][0]).toBe(winner);
    });

    // https://github.com/huggingface/transformers/issues/25921
    it('50: a row has the same bits in every batch', () => {
      const [vocabSize, hiddenSize] = native && format === 'bfloat16' ? [50257, 2048] : [400, 256];
      const weight = tf.tensor2d(randomFloats(vocabSize * hiddenSize, 8), [vocabSize, hiddenSize]);
      const head = format === 'binary' ? LmHead.binarize(weight) : LmHead.dense(weight, { dtype: format });
      weight.dispose();
      const row = tf.tensor2d(randomFloats(hiddenSize, 9), [1, hiddenSize]);
      const alone = topK(row, head, 20);
      for (const rows of [1, 2, 8, 33, 64, 129]) {
        const batch = tf.tile(row, [rows, 1]);
        const { values, ids } = topK(batch, head, 20);
        expect(ids).toEqual(new Array(rows).fill(alone.ids[0]));
        expect(values).toEqual(new Array(rows).fill(alone.values[0]));
        batch.dispose();
      }
      row.dispose();
      head.dispose();
    });
  });

  // https://github.com/signalnine/q27/pull/14
  it('6: zeros of either sign tie across shards', () => {
    const half = 500;
    for (const [first, second] of [
      [-0, 0],
      [0, -0],
    ]) {
      const logits = filled(2 * half, -1, { 3: first, [half + 1]: second });
      expect(tokens(logits, 1, [half, half])).toEqual([[3], [3], [3]]);
    }
  });

  // https://github.com/microsoft/onnxruntime/issues/31161
  it('7: one row of four is all -inf', () => {
    const logits = filled(4 * 12, 0, { 5: 1, 12: 1, 47: 1 }).fill(-Infinity, 24, 36);
    expect(tokens(logits, 4, [5, 7])).toEqual(new Array(3).fill([5, 0, 0, 11]));
  });

  // https://github.com/keras-team/keras/pull/20808
  it('16: denormals are not flushed to zero', () => {
    const logits = new Float32Array([-1, 0, 1.401298464324817e-45]);
    expect(injected('float32', [logits], 3)).toEqual({ values: [[1.401298464324817e-45, 0, -1]], ids: [[2, 1, 0]] });
    expect(tokens(logits, 1, [1, 2])).toEqual([[2], [2], [2]]);
  });

  // https://github.com/pytorch/pytorch/pull/49311
  it('21: k = 0 gives empty results, and the next call works', () => {
    const { hidden, head, dispose } = inject(
      'float32',
      Array.from({ length: 10 }, () => filled(50257, 0, { 777: 1 })),
    );
    const { values, indices } = lmHeadTopK(hidden, head, 0);
    expect([values.shape, indices.shape]).toEqual([
      [10, 0],
      [10, 0],
    ]);
    tf.dispose([values, indices]);
    expect(topK(hidden, head, 1).ids).toEqual(new Array(10).fill([777]));
    dispose();
  });

  // https://github.com/flashinfer-ai/flashinfer/issues/384
  it('23: a huge k is refused, not cut down', () => {
    const { hidden, head, dispose } = inject('float32', new Array<Float32Array>(4).fill(filled(32000, 0, { 1: 1 })));
    expect(() => topK(hidden, head, 1073741824)).toThrow(
      "argument 'k' must be an integer in [0, 32000], but got 1073741824",
    );
    expect(topK(hidden, head, 1).ids).toEqual(new Array(4).fill([1]));
    dispose();
  });

  // https://github.com/lightseekorg/tokenspeed/pull/545
  it('24: no rows, at a small and at a real vocabulary', () => {
    for (const vocabSize of [128, 163840]) {
      tf.tidy(() => {
        const head = tf.zeros<tf.Rank.R2>([vocabSize, 64]);
        const { values, indices } = lmHeadTopK(tf.zeros([0, 64]), head, 5);
        expect([values.shape, indices.shape]).toEqual([
          [0, 5],
          [0, 5],
        ]);
        const shards = [tf.zeros([0, vocabSize / 2]), tf.zeros([0, vocabSize / 2])];
        expect(vocabParallelArgmax(shards).shape).toEqual([0]);
        expect(topK(tf.ones([1, 64]), head, 2).ids).toEqual([[0, 1]]);
        expect(vocabParallelArgmax([tf.zeros([1, 64]), tf.ones([1, 64])]).arraySync()).toEqual([64]);
      });
    }
  });

  // https://github.com/mirage-project/mirage/issues/751
  it('32: a padded column never wins', () => {
    const [vocabSize, columns] = [151936, 153600];
    const logits = filled(columns, 0);
    logits.set(randomIntegers(vocabSize, -5, -2, 10));
    logits[151667] = -1;
    tf.tidy(() => {
      expect(vocabParallelArgmax(tf.tensor2d(logits, [1, columns]), { vocabSize }).arraySync()).toEqual([151667]);
      const shards = cutShards(logits, 1, [100000, 53600]);
      expect(vocabParallelArgmax(shards, { vocabSize }).arraySync()).toEqual([151667]);
    });
  });

  if (native) {
    // https://github.com/pytorch/pytorch/issues/36482
    it('36: weights of over 2^31 bytes', () => {
      const [vocabSize, hiddenSize] = [131080, 4096];
      const weights = new Float32Array(vocabSize * hiddenSize);
      weights[(vocabSize - 1) * hiddenSize] = 1;
      const weight = tf.tensor2d(weights, [vocabSize, hiddenSize]);
      const hidden = tf.tensor2d(filled(hiddenSize, 0, { 0: 1 }), [1, hiddenSize]);
      expect(topK(hidden, weight, 2)).toEqual({ values: [[1, 0]], ids: [[131079, 0]] });
      tf.dispose([weight, hidden]);
    });
  }

  // https://github.com/flagos-ai/Torch-FL/issues/173
  it('40: a transposed square weight', () => {
    tf.tidy(() => {
      const square = tf.tensor2d(randomFloats(32 * 32, 11), [32, 32]);
      const hidden = tf.tensor2d(randomFloats(2 * 32, 12), [2, 32]);
      const expected = topK(hidden, tf.transpose(square), 32);
      const { values, indices } = lmHeadTopK(hidden, square, 32, { transposeWeight: true });
      expect(indices.arraySync()).toEqual(expected.ids);
      (values.arraySync() as number[][])
        .flat()
        .forEach((value, i) => expect(value).toBeCloseTo(expected.values.flat()[i], 4));
    });
  });

  // https://github.com/NVIDIA/TensorRT-LLM/pull/16440
  it('53: ids are global, and rows stay in order', () => {
    const logits = filled(4 * 1000, 0, { 10: 3, 520: 5, 1007: 1, 2999: 1, 3000: 1 });
    expect(tokens(logits, 4, [500, 500])).toEqual(new Array(3).fill([520, 7, 999, 0]));
  });

  // https://github.com/intel/auto-round/issues/1908
  it('54: a row of zeros has scale 0 and score 0', () => {
    const [vocabSize, hiddenSize] = [200, 64];
    const weights = randomFloats(vocabSize * hiddenSize, 13);
    const hidden = tf.tensor2d(randomFloats(hiddenSize, 14), [1, hiddenSize]);
    /** The score of every id, disposing the head. */
    const scoresOf = (head: LmHead) => {
      const { values, ids } = topK(hidden, head, head.vocabSize);
      head.dispose();
      return Array.from(ids[0], (_, id) => values[0][ids[0].indexOf(id)] + 0);
    };
    const binarize = () => {
      const weight = tf.tensor2d(weights, [vocabSize, hiddenSize]);
      const head = LmHead.binarize(weight, { groupSize: 32 });
      weight.dispose();
      return head;
    };
    const expected = scoresOf(binarize());
    expected[123] = 0;
    weights.fill(0, 123 * hiddenSize, 124 * hiddenSize);
    expect(scoresOf(binarize())).toEqual(expected);
    const signs = new Int8Array(2 * hiddenSize).fill(1);
    const [zero, other] = scoresOf(
      binaryHead({ vocabSize: 2, hiddenSize, groupSize: 64, signs, scales: new Float32Array([0, 1]) }),
    );
    expect(zero).toBe(0);
    expect(other).not.toBe(0);
    hidden.dispose();
  });

  // https://github.com/google-ai-edge/ai-edge-quantizer/issues/678
  it('56: subnormal float16 scales count', () => {
    const scales = new Float32Array([0, 2 ** -24, 2 ** -15]);
    expect(scales.map((scale) => roundToHalf(scale, 'float16'))).toEqual(scales);
    const head = binaryHead({
      vocabSize: 3,
      hiddenSize: 64,
      groupSize: 64,
      signs: new Int8Array(3 * 64).fill(1),
      scales,
    });
    expect(topK(tf.ones([1, 64]), head, 3)).toEqual({ values: [[2 ** -9, 2 ** -18, 0]], ids: [[2, 1, 0]] });
    head.dispose();
  });

  // https://github.com/tensorflow/tfjs/issues/445
  it('61: an int32 hidden is refused on every backend', () => {
    tf.tidy(() => {
      const call = () => lmHeadTopK(tf.ones([1, 2], 'int32'), [[1, 2]], 1);
      expect(call).toThrow("argument 'hidden' must have dtype float32, but got dtype int32");
    });
  });
});
