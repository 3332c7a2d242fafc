/**
 * Faults that others shipped, as small inputs with the right answer: k, rows, vocabularies, ids, layouts, batches and
 * shards of awkward sizes. Each cites the public report; its number is that of the list it comes from. Logits are injected
 * exactly (see `inject`); infinities come by bias.
 */
import * as tf from '@tensorflow/tfjs-core';
import { LmHead, lmHeadTopK, vocabParallelArgmax } from 'tfjs-lm-head';
import type { LmHeadTopKAttrs } from '../../src/kernel_names';
import { LmHeadTopK } from '../../src/kernel_names';
import { describeEachBackend, GPU_MODE } from '../backends';
import { cutShards, FORMATS, inject, randomFloats, randomIntegers } from '../cases';
import { rankIds } from '../reference';
import { filled, injected, tokens, topK } from './cases_from_the_field';

describeEachBackend('faults that others shipped: sizes', (backend) => {
  const native = backend === 'tensorflow';

  describe.each(FORMATS)('%s', (format) => {
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

    // https://github.com/sgl-project/sglang/issues/29605
    it('37: weights of over 2^31 elements', () => {
      const [vocabSize, hiddenSize] = [262152, 8192];
      // bfloat16 weights as the kernel takes them, two to a word: in float32 they would take 8 GiB.
      const column = new Int32Array(vocabSize);
      [column[262143], column[262144], column[262151]] = [0x3f80, 0x4040, 0x4000]; // 1, 3, 2
      const weight = tf.tidy(() =>
        tf.pad(tf.tensor2d(column, [vocabSize, 1], 'int32'), [
          [0, 0],
          [0, hiddenSize / 2 - 1],
        ]),
      );
      const hidden = tf.tensor2d(filled(hiddenSize, 0, { 0: 1 }), [1, hiddenSize]);
      const attrs: LmHeadTopKAttrs = {
        format: 'bfloat16',
        k: 4,
        groupSize: 0,
        vocabSize: 0,
        transposeWeight: false,
        vocabStart: 0,
        logSumExp: false,
      };
      const [values, indices] = tf
        .engine()
        .runKernel<tf.Tensor[]>(LmHeadTopK, { hidden, weight }, attrs as unknown as tf.NamedAttrMap);
      expect(indices.arraySync()).toEqual([[262144, 262151, 262143, 0]]);
      expect(values.arraySync()).toEqual([[3, 2, 1, 0]]);
      tf.dispose([weight, hidden, values, indices]);
    });

    // https://github.com/ggml-org/llama.cpp/issues/24718
    it('31: no memory of the size of the logits', () => {
      // In float32 the logits would take 25.75 GiB on a GPU, and 6.4 GiB on the slower CPU.
      const [rows, vocabSize, hiddenSize] = [GPU_MODE ? 8192 : 2048, 843776, 64];
      const weights = randomIntegers(vocabSize * hiddenSize, -3, 3, 13);
      const head = LmHead.dense(tf.tensor2d(weights, [vocabSize, hiddenSize]), { dtype: 'bfloat16' });
      const hidden = randomIntegers(rows * hiddenSize, -3, 3, 14);
      const before = process.memoryUsage().rss;
      const { ids } = topK(tf.tensor2d(hidden, [rows, hiddenSize]), head, 1);
      expect(process.memoryUsage().rss - before).toBeLessThan(2 ** 30);
      for (const row of [0, rows / 2, rows - 1]) {
        const scores = new Float32Array(vocabSize);
        for (let id = 0; id < vocabSize; id++) {
          for (let i = 0; i < hiddenSize; i++)
            scores[id] += weights[id * hiddenSize + i] * hidden[row * hiddenSize + i];
        }
        expect(ids[row]).toEqual(rankIds(scores, 1));
      }
      head.dispose();
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
});
