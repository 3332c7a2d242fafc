/** Names, inputs and attributes of this package's kernels, as `tf.engine().runKernel` and the KernelConfigs see them. */
import type { NamedTensorInfoMap, TensorInfo } from '@tensorflow/tfjs-core';

export type DenseFormat = 'float32' | 'bfloat16' | 'float16';
export type HeadFormat = DenseFormat | 'binary';

/** What kernels that score a head are given: hidden, the head, and what the options of a call make of a score. */
export interface LmHeadInputs extends NamedTensorInfoMap {
  /** [..., hiddenSize] float32, of rank 1 or higher. */
  hidden: TensorInfo;
  /**
   * float32: float32 [vocabSize, hiddenSize], or [hiddenSize, vocabSize] with `transposeWeight`.
   * bfloat16, float16: int32 [vocabSize, words], two elements a word, the lower column in the lower half, rows padded with
   * zeros to 16 bytes (`halfRowWords` in common/half.ts).
   * binary: bits and scales in one int32 [tiles, tileWords], as `PackBinary` returns them.
   */
  weight: TensorInfo;
  /**
   * binary alone: float32 [...]. `hidden` then holds whole numbers in [-127, 127] already, and this is what they are
   * multiplied by; without it, the kernel quantizes `hidden` as `QuantizeActivations` does.
   */
  hiddenScale?: TensorInfo;
  // Of the following, what stands before the last dimension multiplies to 1, for all rows alike, or to the number of rows;
  // of softCap and scale, all of it does. Ids are those that are returned.
  /** float32 [vocabSize] or [rows, vocabSize]. */
  bias?: TensorInfo;
  /** float32 [1] or [rows]: cap * tanh(score / cap). */
  softCap?: TensorInfo;
  /** float32 [1] or [rows]: what the score is multiplied by then. */
  scale?: TensorInfo;
  /** int32 [entries] or [rows, entries]: ids of which scores are adjusted then; -1 pads. */
  adjustIds?: TensorInfo;
  /** float32, shaped as `adjustIds`: scores above 0 are divided by it, others multiplied. */
  adjustRepetition?: TensorInfo;
  /** float32, shaped as `adjustIds`: is added then. */
  adjustAdd?: TensorInfo;
  /** int32 [words] or [rows, words]: bit b of word w is id 32w+b; the score of an id whose bit is clear is -Infinity. */
  mask?: TensorInfo;
}

export interface LmHeadAttrs {
  format: HeadFormat;
  /** Columns that share a scale; 0 unless `format` is 'binary'. */
  groupSize: number;
  /** True size of a binary head's vocabulary, which is padded to whole tiles; 0 unless `format` is 'binary'. */
  vocabSize: number;
  /** Only with format 'float32'. */
  transposeWeight: boolean;
  /** Id of the head's first row. */
  vocabStart: number;
}

/**
 * Scores of `hidden` against every row of the head, and the best `k` of them; outputs [values, indices], float32 and int32
 * [..., k]; with `logSumExp` also float32 [...], and with `logSumState` int32 [..., 12].
 */
export const LmHeadTopK = 'LmHeadTopK';
export type LmHeadTopKInputs = LmHeadInputs;
export interface LmHeadTopKAttrs extends LmHeadAttrs {
  k: number;
  /** Whether to return log(sum of exp(score)) over the whole vocabulary, too. */
  logSumExp: boolean;
  /** Whether to return that sum itself, too, as ranks tell it each other (`LogSumExp.store`). Not with `group`. */
  logSumState?: boolean;
  /**
   * Native handle of the processes that hold the other shards of the head; results are then those of the whole, and `k` may
   * exceed this shard. Only on 'tensorflow'.
   */
  group?: number;
  /** Whether the results come to host memory with the call. Only 'tensorflow' heeds it: elsewhere they are there already. */
  host?: boolean;
}

/** Scores of given ids alone; output float32 [..., n], NaN for ids that are not in this head (-1 among them). */
export const LmHeadScores = 'LmHeadScores';
export interface LmHeadScoresInputs extends LmHeadInputs {
  /** int32: n a row, whatever the shape. */
  ids: TensorInfo;
}
export type LmHeadScoresAttrs = LmHeadAttrs;

/**
 * How many ids of this head come before given ids; outputs ranks int32 [..., n], logSumExp float32 [...], and with
 * `logSumState` int32 [..., 12].
 */
export const LmHeadRanks = 'LmHeadRanks';
export interface LmHeadRanksInputs extends LmHeadInputs {
  /** int32, n a row, whatever the shape: ids of the whole vocabulary. */
  ids: TensorInfo;
  /** float32, as many: their scores, as `LmHeadScores` gives them. */
  scores: TensorInfo;
}
export interface LmHeadRanksAttrs extends LmHeadAttrs {
  logSumState?: boolean;
}

/**
 * The best id of score / temperature + noise, a draw from softmax(score / temperature) (Gumbel-max); outputs [noisy float32
 * [...], ids int32 [...]], with `logSumExp` also float32 [...], that of the scores without temperature and noise, and with
 * `logSumState` int32 [..., 12]. The id is -1 where every score is -Infinity.
 */
export const LmHeadDraw = 'LmHeadDraw';
export interface LmHeadDrawInputs extends LmHeadInputs {
  /** float32 [1] or [rows]; 0: no noise. */
  temperature: TensorInfo;
  /** int32 [4] or [rows, 4]: lower and upper half of the seed, then of the step. */
  seed: TensorInfo;
  /** int32, one a row: which row's noise each row gets; without it, the row's number. */
  rowIds?: TensorInfo;
}
export interface LmHeadDrawAttrs extends LmHeadAttrs {
  logSumExp: boolean;
  logSumState?: boolean;
}

/** Rounds a float32 matrix to 16 bits an element; output int32 [rows, words] (see `LmHeadTopKInputs.weight`). */
export const PackHalf = 'PackHalf';
export interface PackHalfInputs extends NamedTensorInfoMap {
  /** float32 [rows, columns], or [columns, rows] with `transpose`. */
  x: TensorInfo;
}
export interface PackHalfAttrs {
  format: 'bfloat16' | 'float16';
  transpose: boolean;
}

/** Sign and mean absolute value of each group; outputs [bits int32 [rows, columns / 32], scales float32 [rows, groups]]. */
export const BinarizeHead = 'BinarizeHead';
export interface BinarizeHeadInputs extends NamedTensorInfoMap {
  /** float32 [rows, columns]. */
  weight: TensorInfo;
}
export interface BinarizeHeadAttrs {
  groupSize: number;
}

/**
 * The bits and scales of a binary head to the layout that its kernels read (`common/binary_layout.ts`); output int32
 * [ceil(vocabSize / 256), tileWords]. Scales are rounded to float16.
 */
export const PackBinary = 'PackBinary';
export interface PackBinaryInputs extends NamedTensorInfoMap {
  /** int32 [vocabSize, hiddenSize / 32]: bit b of word w is column 32w+b; set means +1, clear means -1. */
  bits: TensorInfo;
  /** float32 [vocabSize, hiddenSize / groupSize]. */
  scales: TensorInfo;
}
export interface PackBinaryAttrs {
  groupSize: number;
}

/** The inverse of `PackBinary`; outputs [bits, scales], the scales as they are stored. */
export const UnpackBinary = 'UnpackBinary';
export interface UnpackBinaryInputs extends NamedTensorInfoMap {
  /** int32 [ceil(vocabSize / 256), tileWords]. */
  packed: TensorInfo;
}
export interface UnpackBinaryAttrs {
  vocabSize: number;
  hiddenSize: number;
  groupSize: number;
}

/**
 * Rows in 8 bits: scale = absmax / 127, q = round-half-even(h / scale) in [-127, 127], both in float32; outputs [q int32
 * [..., size], scale float32 [...]]. q is 0 where the scale is 0, and for a row with NaN or an infinity, whose scale is NaN.
 */
export const QuantizeActivations = 'QuantizeActivations';
export interface QuantizeActivationsInputs extends NamedTensorInfoMap {
  /** float32 [..., size], of rank 1 or higher. */
  hidden: TensorInfo;
}

/** Best (order-preserving key, id) of 8 slices of a row; output int32 [rows, 16]. */
export const LocalArgmaxCandidates = 'LocalArgmaxCandidates';
export interface LocalArgmaxCandidatesInputs extends NamedTensorInfoMap {
  /** float32 [rows, columns], or [columns, rows] with `columnMajor`. */
  logits: TensorInfo;
}
export interface LocalArgmaxCandidatesAttrs {
  vocabStart: number;
  /** Columns from here on are padding and never win; at most the number of columns. */
  vocabSize: number;
  columnMajor: boolean;
}

/** Global id of each row's winner; output int32 [rows]. */
export const PickFromCandidates = 'PickFromCandidates';
export interface PickFromCandidatesInputs extends NamedTensorInfoMap {
  /** int32 [ranks, rows, 16]. */
  candidates: TensorInfo;
}

/**
 * Argmax over the concatenation of all shards, which lie in this process; output int32 [rows].
 * Inputs are named shard0, shard1, ...: float32 [rows, columns of the shard].
 */
export const VocabParallelArgmax = 'VocabParallelArgmax';
export type VocabParallelArgmaxInputs = NamedTensorInfoMap;
export interface VocabParallelArgmaxAttrs {
  vocabStart: number;
  /** True size of all shards together, counted from the first column of the first. */
  vocabSize: number;
  columnMajor: boolean;
  /** Native handle of the processes that hold the other shards; there is one shard here then. Only on 'tensorflow'. */
  group?: number;
  /** As in `LmHeadTopKAttrs`. */
  host?: boolean;
}
