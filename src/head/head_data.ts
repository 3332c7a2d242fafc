import type * as tf from '@tensorflow/tfjs-core';
import type { HeadFormat } from '../kernel_names';

/** Weights in kernel layout: see `LmHeadTopKInputs` in kernel_names.ts. */
export interface LmHeadTensors {
  weight: tf.Tensor2D;
  bias?: tf.Tensor1D;
}

/** What kernels have to know of a head; an `LmHead` is one that owns its tensors. */
export interface HeadData {
  /** Type the weights are stored in: 'float32', 'bfloat16', 'float16' or 'binary'. */
  readonly format: HeadFormat;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  /** Columns that share a scale in a binary head; 0 in a dense one. */
  readonly groupSize: number;
  /** Whether `tensors.weight` is [hiddenSize, vocabSize]; float32 alone. */
  readonly transposeWeight: boolean;
  readonly tensors: Readonly<LmHeadTensors>;
}

/** Where the rows of a head lie in a vocabulary. */
export interface HeadPlace {
  /** Id of the first row: 0, or where this shard begins. */
  readonly vocabStart: number;
  /** Size of the vocabulary that this shard is a part of; undefined for a head that `LmHead.shard` has not made. */
  readonly wholeVocabSize: number | undefined;
}

export function presentTensors({ weight, bias }: Readonly<LmHeadTensors>): tf.Tensor[] {
  return [weight, bias].filter((tensor) => tensor !== undefined);
}
