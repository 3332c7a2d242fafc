import * as tf from '@tensorflow/tfjs-core';
import { HALF_OVERFLOW } from '../common/half';
import type { HalfFormat } from '../common/half';
import type { BinaryHeadParts } from './binary_head';
import { checkGroupSize, checkHiddenSize, checkParts, packBinary } from './binary_head';
import type { BinarizeHeadAttrs, DenseFormat, HeadFormat, PackHalfAttrs, UnpackBinaryAttrs } from '../kernel_names';
import { BinarizeHead, PackHalf, UnpackBinary } from '../kernel_names';
import type { ShardRange, ShardRangeOptions } from '../group/shard_range';
import { shardRange } from '../group/shard_range';
import { runKernel } from '../common/run_kernel';
import { checkBoolean, checkOptions, describe, fail, toBias, toMatrix } from '../common/validate';

/** Elements that a check of dense weights looks at in one go, so that it needs little memory. */
const CHECK_ELEMENTS = 1 << 24;

export interface DenseHeadOptions {
  /** Type the weights are stored in; 'bfloat16' and 'float16' take half the memory. Default 'float32'. */
  dtype?: DenseFormat;
  /** Whether `weight` is [hiddenSize, vocabSize]. Default false. */
  transposed?: boolean;
  /** float32 [vocabSize], added to the scores in float32. */
  bias?: tf.Tensor1D | tf.TensorLike;
}

export interface BinaryHeadSource {
  /** int32 [vocabSize, hiddenSize / 32]: bit b of word w is column 32w+b; set means +1, clear means -1. */
  bits: tf.Tensor2D | tf.TensorLike;
  /** float32 [vocabSize, hiddenSize / groupSize], rounded to float16 here. */
  scales: tf.Tensor2D | tf.TensorLike;
  /** Columns that share a scale: a multiple of 32 that divides hiddenSize, at most 32,768. Default 128. */
  groupSize?: number;
  /** float32 [vocabSize], added to the scores in float32. */
  bias?: tf.Tensor1D | tf.TensorLike;
}

export type BinarizeHeadOptions = Pick<BinaryHeadSource, 'groupSize' | 'bias'>;

export interface ShardHeadOptions extends ShardRangeOptions, BinarizeHeadOptions, Pick<DenseHeadOptions, 'transposed'> {
  /** As `head.format`. Default 'float32'. */
  format?: HeadFormat;
}

/** Weights in kernel layout: see `LmHeadTopKInputs` in kernel_names.ts. */
export interface LmHeadTensors {
  weight: tf.Tensor2D;
  bias?: tf.Tensor1D;
}

interface HeadLayout {
  format: HeadFormat;
  vocabSize: number;
  hiddenSize: number;
  groupSize: number;
  transposeWeight: boolean;
  vocabStart?: number;
  wholeVocabSize?: number;
}

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
export class LmHead {
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
    layout: HeadLayout,
    private readonly kept: LmHeadTensors,
  ) {
    this.format = layout.format;
    this.vocabSize = layout.vocabSize;
    this.hiddenSize = layout.hiddenSize;
    this.groupSize = layout.groupSize;
    this.transposeWeight = layout.transposeWeight;
    this.vocabStart = layout.vocabStart ?? 0;
    this.wholeVocabSize = layout.wholeVocabSize;
  }

  /**
   * A head of floating-point weights.
   * @param weight float32 [vocabSize, hiddenSize], or [hiddenSize, vocabSize] with `transposed`. NaN and infinities are kept.
   * @param options `dtype` 'float32' (default), 'bfloat16' or 'float16', rounded to nearest even; `transposed` (default
   *     false); `bias` float32 [vocabSize].
   * @throws Error on a wrong shape or dtype, a disposed tensor, an unknown option, or a finite weight that overflows
   *     the 16-bit type.
   */
  static dense(weight: tf.Tensor2D | tf.TensorLike, options: DenseHeadOptions = {}): LmHead {
    return LmHead.makeDense('LmHead.dense', weight, options);
  }

  /** `dense` for a caller whose name its errors tell. */
  private static makeDense(op: string, weight: tf.Tensor2D | tf.TensorLike, options: DenseHeadOptions): LmHead {
    checkOptions(op, options, ['dtype', 'transposed', 'bias']);
    const { dtype: format = 'float32', transposed = false, bias } = options;
    if (!['float32', 'bfloat16', 'float16'].includes(format)) {
      fail(op, 'dtype', "be 'float32', 'bfloat16' or 'float16'", describe(format));
    }
    checkBoolean(op, 'transposed', transposed);
    return LmHead.make(() => {
      const matrix = toMatrix(
        op,
        'weight',
        weight,
        'float32',
        transposed ? '[hidden, vocabulary]' : '[vocabulary, hidden]',
      );
      const [vocabSize, hiddenSize] = transposed ? [matrix.shape[1], matrix.shape[0]] : matrix.shape;
      const tensors = { weight: matrix, bias: bias === undefined ? undefined : toBias(op, bias, vocabSize) };
      const layout = { format, vocabSize, hiddenSize, groupSize: 0, transposeWeight: false };
      if (format === 'float32') return [{ ...layout, transposeWeight: transposed }, tensors];
      if (overflows(matrix, HALF_OVERFLOW[format])) {
        fail(
          op,
          'weight',
          `hold no finite number that overflows ${format}`,
          `a magnitude of at least ${HALF_OVERFLOW[format]}`,
        );
      }
      return [layout, { ...tensors, weight: packHalf(matrix, format, transposed, 8) }];
    });
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
    checkOptions(op, source, ['bits', 'scales', 'groupSize', 'bias']);
    const { groupSize = 128, bias } = source;
    checkGroupSize(op, groupSize);
    return LmHead.make(() => {
      const bits = toMatrix(op, 'bits', source.bits, 'int32', '[vocabulary, hidden / 32]');
      const scales = toMatrix(op, 'scales', source.scales, 'float32', '[vocabulary, hidden / groupSize]');
      checkParts(op, { bits, scales }, groupSize);
      const [vocabSize, words] = bits.shape;
      const checkedBias = bias === undefined ? undefined : toBias(op, bias, vocabSize);
      const layout = binaryLayout(vocabSize, 32 * words, groupSize);
      return [layout, { weight: packBinary(op, { bits, scales }, groupSize), bias: checkedBias }];
    });
  }

  /**
   * A binary head made from floating-point weights: their signs (0 counts as +), and the mean |w| of each group as scale.
   * @param weight float32 [vocabSize, hiddenSize]; hiddenSize a multiple of 32 and of groupSize.
   * @param options `groupSize` (default 128, at most 32,768); `bias` float32 [vocabSize].
   * @throws Error on a wrong shape or dtype, a disposed tensor, an unknown option, a groupSize out of range, a hiddenSize
   *     that is not a multiple of 32 and groupSize, or a group whose mean is not finite or overflows float16.
   */
  static binarize(weight: tf.Tensor2D | tf.TensorLike, options: BinarizeHeadOptions = {}): LmHead {
    return LmHead.makeBinarized('LmHead.binarize', weight, options);
  }

  /** `binarize` for a caller whose name its errors tell. */
  private static makeBinarized(op: string, weight: tf.Tensor2D | tf.TensorLike, options: BinarizeHeadOptions): LmHead {
    checkOptions(op, options, ['groupSize', 'bias']);
    const { groupSize = 128, bias } = options;
    checkGroupSize(op, groupSize);
    return LmHead.make(() => {
      const matrix = toMatrix(op, 'weight', weight, 'float32', '[vocabulary, hidden]');
      const [vocabSize, hiddenSize] = matrix.shape;
      checkHiddenSize(op, 'weight', hiddenSize, groupSize);
      const checkedBias = bias === undefined ? undefined : toBias(op, bias, vocabSize);
      const attrs: BinarizeHeadAttrs = { groupSize };
      const [bits, scales] = runKernel<tf.Tensor2D[]>(BinarizeHead, { weight: matrix }, attrs);
      const expected = 'have groups whose mean |w| is finite and does not overflow float16';
      const packed = packBinary(op, { bits, scales }, groupSize, 'weight', expected);
      return [binaryLayout(vocabSize, hiddenSize, groupSize), { weight: packed, bias: checkedBias }];
    });
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
  static shard(weight: tf.Tensor2D | tf.TensorLike, options: ShardHeadOptions): LmHead {
    const op = 'LmHead.shard';
    checkOptions(op, options, ['rank', 'worldSize', 'multipleOf', 'format', 'bias', 'transposed', 'groupSize']);
    const { format = 'float32', transposed = false, groupSize, bias } = options;
    checkBoolean(op, 'transposed', transposed);
    if (!['float32', 'bfloat16', 'float16', 'binary'].includes(format)) {
      fail(op, 'format', "be 'float32', 'bfloat16', 'float16' or 'binary'", describe(format));
    }
    if (format === 'binary' && transposed) fail(op, 'transposed', "be left out with format 'binary'", 'true');
    if (format !== 'binary' && groupSize !== undefined) {
      fail(op, 'groupSize', `be left out with format '${format}'`, describe(groupSize));
    }
    let shard!: LmHead;
    let place!: Pick<HeadLayout, 'vocabSize' | 'vocabStart' | 'wholeVocabSize'>;
    tf.tidy(() => {
      const shape = transposed ? '[hidden, vocabulary]' : '[vocabulary, hidden]';
      const whole = toMatrix(op, 'weight', weight, 'float32', shape);
      const [vocabSize, hiddenSize] = transposed ? [whole.shape[1], whole.shape[0]] : whole.shape;
      const { rank, worldSize, multipleOf } = options;
      const { begin, end } = shardRange(op, vocabSize, { rank, worldSize, multipleOf });
      place = { vocabSize: end - begin, vocabStart: begin, wholeVocabSize: vocabSize };
      // Kernels that pack want a row; one that holds none is made of the first, which is then cut away.
      const [first, count] = begin < end ? [begin, end - begin] : [0, 1];
      const rows = transposed
        ? tf.slice(whole, [0, first], [hiddenSize, count])
        : tf.slice(whole, [first, 0], [count, hiddenSize]);
      const rowsBias = bias === undefined ? undefined : tf.slice(toBias(op, bias, vocabSize), [first], [count]);
      shard =
        format === 'binary'
          ? LmHead.makeBinarized(op, rows, { groupSize, bias: rowsBias })
          : LmHead.makeDense(op, rows, { dtype: format, transposed, bias: rowsBias });
    });
    const kept = place.vocabSize === 0 ? shard.withoutRows() : shard.kept;
    return new LmHead({ ...shard, ...place }, kept);
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
    const [bits, scales] = runKernel<tf.Tensor2D[]>(UnpackBinary, { packed: this.kept.weight }, attrs);
    return { bits, scales };
  }

  /** Bytes that weights (with scales, and the padding of their layout) and bias take on the device. */
  get bytes(): number {
    return present(this.kept).reduce((sum, tensor) => sum + tensor.size * 4, 0);
  }

  get isDisposed(): boolean {
    return this.kept.weight.isDisposed;
  }

  /** The tensors that the kernels read. They belong to the head: do not dispose them. */
  get tensors(): Readonly<LmHeadTensors> {
    return this.kept;
  }

  /** Frees the head's memory; calling it again does nothing. */
  dispose(): void {
    for (const tensor of present(this.kept)) tensor.dispose();
  }

  /** Its tensors, cut down to no rows; the head itself ends. */
  private withoutRows(): LmHeadTensors {
    const cut = <T extends tf.Tensor>(tensor: T) => {
      const empty = tensor.shape.map((size, axis) =>
        axis === (this.transposeWeight && tensor.rank === 2 ? 1 : 0) ? 0 : size,
      );
      return tf.keep(tf.tensor([], empty, tensor.dtype)) as T;
    };
    const { weight, bias } = this.kept;
    const tensors = { weight: cut(weight), bias: bias && cut(bias) };
    this.dispose();
    return tensors;
  }

  /** Keeps clones of what `build` returns; whatever else it makes ends here, also when it throws. */
  private static make(build: () => [HeadLayout, LmHeadTensors]): LmHead {
    let layout!: HeadLayout;
    const tensors = tf.tidy(() => {
      const [builtLayout, { weight, bias }] = build();
      layout = builtLayout;
      // A clone shares its memory with the tensor it is made from, and may outlive it.
      return { weight: tf.clone(weight), bias: bias && tf.clone(bias) };
    }) as LmHeadTensors;
    for (const tensor of present(tensors)) tf.keep(tensor);
    return new LmHead(layout, tensors);
  }
}

function present({ weight, bias }: LmHeadTensors): tf.Tensor[] {
  return [weight, bias].filter((tensor) => tensor !== undefined);
}

function binaryLayout(vocabSize: number, hiddenSize: number, groupSize: number): HeadLayout {
  return { format: 'binary', vocabSize, hiddenSize, groupSize, transposeWeight: false };
}

/** Whether a finite element's magnitude is at least `limit`; NaN compares false. */
function overflows(matrix: tf.Tensor2D, limit: number): boolean {
  const [rows, columns] = matrix.shape;
  const step = Math.max(1, Math.floor(CHECK_ELEMENTS / columns));
  for (let row = 0; row < rows; row += step) {
    const found = tf.tidy(() => {
      const magnitude = tf.abs(tf.slice(matrix, [row, 0], [Math.min(step, rows - row), columns]));
      return tf.any(tf.logicalAnd(tf.greaterEqual(magnitude, limit), tf.less(magnitude, Infinity))).dataSync()[0];
    });
    if (found) return true;
  }
  return false;
}

function packHalf(x: tf.Tensor2D, format: HalfFormat, transpose: boolean, multipleOf: number): tf.Tensor2D {
  const attrs: PackHalfAttrs = { format, transpose, multipleOf };
  return runKernel<tf.Tensor2D>(PackHalf, { x }, attrs);
}
