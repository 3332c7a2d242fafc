import * as tf from '@tensorflow/tfjs-core';
import { runKernel } from '../common/run_kernel';
import { checkOptions, fail } from '../common/validate';
import type { ShardRange, ShardRangeOptions } from '../group/shard_range';
import { shardRange } from '../group/shard_range';
import type { HeadFormat, UnpackBinaryAttrs } from '../kernel_names';
import { UnpackBinary } from '../kernel_names';
import type { BinarizeHeadOptions, BinaryHeadParts, BinaryHeadSource } from './binary_head';
import { binarizedHead, binaryHead } from './binary_head';
import type { DenseHeadOptions } from './dense_head';
import { denseHead } from './dense_head';
import type { HeadData, HeadPlace, LmHeadTensors } from './head_data';
import { presentTensors } from './head_data';
import type { ShardHeadOptions } from './shard_head';
import { shardHead } from './shard_head';

/**
 * The vocabulary matrix of a language model, in the layout that the kernels read. tfjs has no 16-bit and no 1-bit type,
 * so such weights live in int32 tensors in here.
 *
 * ```js
 * const head = LmHead.dense(weight, {dtype: 'bfloat16'});  // weight: float32 [vocabSize, hiddenSize]
 * const {values, indices} = lmHeadTopK(hidden, head, 50);
 * head.dispose();
 * ```
 *
 * A head owns its tensors: they outlive an enclosing `tf.tidy` and end with `dispose()`. The tensors it is made from are
 * not consumed; a float32 matrix and `bias` are shared with it rather than copied, so disposing them there is harmless
 * and frees nothing while the head lives.
 */
export class LmHead implements HeadData, HeadPlace {
  /** Type the weights are stored in: 'float32', 'bfloat16', 'float16' or 'binary'. */
  readonly format: HeadFormat;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Columns that share a scale in a binary head; 0 in a dense one. */
  readonly groupSize: number;
  /** Whether `tensors.weight` is [hiddenSize, vocabSize]; float32 alone. */
  readonly transposeWeight: boolean;
  /** Id of the first row: 0, or where this shard begins. */
  readonly vocabStart: number;
  /** Size of the vocabulary that this shard is a part of; undefined for a head that `LmHead.shard` has not made. */
  readonly wholeVocabSize: number | undefined;

  private constructor(
    data: HeadData & Partial<HeadPlace>,
    /** The tensors that the kernels read. They belong to the head: do not dispose them. */
    readonly tensors: Readonly<LmHeadTensors>,
  ) {
    this.format = data.format;
    this.vocabSize = data.vocabSize;
    this.hiddenSize = data.hiddenSize;
    this.groupSize = data.groupSize;
    this.transposeWeight = data.transposeWeight;
    this.vocabStart = data.vocabStart ?? 0;
    this.wholeVocabSize = data.wholeVocabSize;
  }

  /**
   * A head of floating-point weights.
   * @param weight float32 [vocabSize, hiddenSize], or [hiddenSize, vocabSize] with `transposed`. NaN and infinities are kept.
   * @param options `dtype` 'float32' (default), 'bfloat16' or 'float16', rounded to nearest even; `transposed` (default
   *     false); `bias` float32 [vocabSize].
   * @throws Error on a wrong shape or dtype, a disposed tensor, an unknown option, or a finite weight that overflows
   *     the 16-bit type.
   */
  static dense(weight: tf.Tensor | tf.TensorLike, options: DenseHeadOptions = {}): LmHead {
    return LmHead.make(() => denseHead('LmHead.dense', weight, options));
  }

  /**
   * A head of 1-bit weights: weight = ±scale of its group.
   * @param source `bits` int32 [vocabSize, hiddenSize / 32]; `scales` float32 [vocabSize, hiddenSize / groupSize], any
   *     sign; `groupSize` (default 128, at most 32,768); `bias` float32 [vocabSize].
   * @throws Error on a wrong shape or dtype, a disposed tensor, an unknown key, a groupSize out of range, a hiddenSize that
   *     is not a multiple of groupSize, or a scale that is not finite or overflows float16.
   */
  static binary(source: BinaryHeadSource): LmHead {
    const op = 'LmHead.binary';
    return LmHead.make(() => {
      checkOptions(op, source, ['bits', 'scales', 'groupSize', 'bias']);
      return binaryHead(op, source);
    });
  }

  /**
   * A binary head made from floating-point weights: their signs (0 counts as +), and the mean |w| of each group as scale.
   * @param weight float32 [vocabSize, hiddenSize]; hiddenSize a multiple of 32 and of groupSize.
   * @param options `groupSize` (default 128, at most 32,768); `bias` float32 [vocabSize].
   * @throws Error on a wrong shape or dtype, a disposed tensor, an unknown option, a groupSize out of range, a hiddenSize
   *     that is not a multiple of 32 and groupSize, or a group whose mean is not finite or overflows float16.
   */
  static binarize(weight: tf.Tensor | tf.TensorLike, options: BinarizeHeadOptions = {}): LmHead {
    return LmHead.make(() => binarizedHead('LmHead.binarize', weight, options));
  }

  /**
   * The ids that a rank holds when a vocabulary is cut into equal slices, as tensor-parallel systems do: the vocabulary is
   * padded to the next size that `multipleOf` and `worldSize` divide, and the padding is left out again. So the last ranks
   * hold fewer ids than the others, or none. With weights that are read slice by slice, make a head of [begin, end) and pass
   * `vocabStart: begin` to the ops.
   *
   * ```js
   * LmHead.shardRange(32001, {rank: 3, worldSize: 4});  // {begin: 24048, end: 32001}: 4 slices of 8016
   * ```
   *
   * @param vocabSize size of the whole vocabulary, without padding.
   * @param options `rank`, `worldSize`, and `multipleOf` (default 64; to make each slice a multiple of n, take n * worldSize).
   * @throws Error on a number out of range or an unknown option.
   */
  static shardRange(vocabSize: number, options: ShardRangeOptions): ShardRange {
    const op = 'LmHead.shardRange';
    checkOptions(op, options, ['rank', 'worldSize', 'multipleOf']);
    return shardRange(op, vocabSize, options);
  }

  /**
   * A head of the rows that a rank holds, to be used with the option `group` of `lmHeadTopK`. `head.vocabStart` is the id of
   * its first row and `head.wholeVocabSize` the size of the whole; `head.vocabSize` is 0 in a rank that holds none.
   *
   * ```js
   * const {rank, worldSize} = group;
   * const shard = LmHead.shard(weight, {rank, worldSize, format: 'binary'});  // the same weight in every rank
   * ```
   *
   * @param weight the whole float32 [vocabSize, hiddenSize], or [hiddenSize, vocabSize] with `transposed`; without padding.
   * @param options `rank`, `worldSize`, `multipleOf` as for `shardRange`; `format` 'float32' (default), 'bfloat16', 'float16' or
   *     'binary' (signs and mean |w|, as `binarize`); `bias` float32 [vocabSize], of the whole; `transposed` (default false, not
   *     with 'binary'); `groupSize` (default 128, only with 'binary').
   * @throws Error on a number out of range or an unknown option, and as `dense` or `binarize` does.
   */
  static shard(weight: tf.Tensor | tf.TensorLike, options: ShardHeadOptions): LmHead {
    return LmHead.make(() => shardHead('LmHead.shard', weight, options));
  }

  /**
   * The bits and scales of a binary head, as new tensors.
   * @returns `bits` int32 [vocabSize, hiddenSize / 32], as `LmHead.binary` takes them; `scales` float32 [vocabSize,
   *     hiddenSize / groupSize], as they are stored, that is, rounded to float16.
   * @throws Error if the head is dense or has been disposed.
   */
  unpack(): BinaryHeadParts {
    const op = 'LmHead.unpack';
    if (this.format !== 'binary') fail(op, 'head', 'be binary', `one in ${this.format}`);
    if (this.isDisposed) fail(op, 'head', 'be a head that exists', 'one that has been disposed');
    const { vocabSize, hiddenSize, groupSize } = this;
    const attrs: UnpackBinaryAttrs = { vocabSize, hiddenSize, groupSize };
    const [bits, scales] = runKernel<tf.Tensor2D[]>(UnpackBinary, { packed: this.tensors.weight }, attrs);
    return { bits, scales };
  }

  /** Bytes that weights (with scales, and the padding of their layout) and bias take on the device. */
  get bytes(): number {
    return presentTensors(this.tensors).reduce((sum, tensor) => sum + tensor.size * 4, 0);
  }

  get isDisposed(): boolean {
    return this.tensors.weight.isDisposed;
  }

  /** Frees the head's memory; calling it again does nothing. */
  dispose(): void {
    for (const tensor of presentTensors(this.tensors)) tensor.dispose();
  }

  /** `dispose`, for `using head = LmHead.dense(...)`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** Keeps clones of the tensors that `build` returns; whatever else it makes ends here, also when it throws. */
  private static make(build: () => HeadData & Partial<HeadPlace>): LmHead {
    let data!: HeadData & Partial<HeadPlace>;
    const tensors = tf.tidy(() => {
      data = build();
      // A clone shares its memory with the tensor it is made from, and may outlive it.
      const { weight, bias } = data.tensors;
      return { weight: tf.clone(weight), bias: bias && tf.clone(bias) };
    }) as LmHeadTensors;
    for (const tensor of presentTensors(tensors)) tf.keep(tensor);
    return new LmHead(data, tensors);
  }
}
