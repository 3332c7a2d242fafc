/** What all ops share that score hidden vectors against a head: their arguments, checked, as kernels take them. */
import * as tf from '@tensorflow/tfjs-core';
import type { ScoreInputs, ScoreOptions } from '../common/score_options';
import { areTensors, SCORE_OPTIONS, scoreInputs } from '../common/score_options';
import { checkBoolean, checkInner, checkInteger, fail, MAX_VOCAB_END, toTensor } from '../common/validate';
import type { Exchange } from '../group/shard_exchange';
import { resolveGroup } from '../group/shard_exchange';
import type { ShardGroup } from '../group/shard_group';
import { toWeight } from '../head/dense_head';
import type { HeadData } from '../head/head_data';
import { LmHead } from '../head/lm_head';
import type { LmHeadAttrs } from '../kernel_names';

export interface HeadOptions extends ScoreOptions {
  /** Whether a plain matrix `head` is [hiddenSize, vocabSize]. Default false. Not together with an `LmHead`. */
  transposeWeight?: boolean;
  /** Id of the head's first row, for a part of a vocabulary. Default: the head's, which is mostly 0. */
  vocabStart?: number;
  /** The processes that hold the other shards: a `TensorParallelGroup`, or a transport of your own. Default: none. */
  group?: ShardGroup;
}

/** The keys of `HeadOptions`, for `checkOptions`. */
export const HEAD_OPTIONS = [...SCORE_OPTIONS, 'transposeWeight', 'vocabStart', 'group'] as const;

/** A call whose arguments have been checked. */
export interface HeadCall {
  head: HeadData;
  /** Leading dimensions of hidden, and their product. */
  leading: number[];
  rows: number;
  /** Ids [vocabStart, vocabStart + vocabSize) are scored here. */
  vocabStart: number;
  vocabSize: number;
  /** Of the vocabulary that those ids are a part of; undefined where this rank cannot know it. */
  wholeVocabSize: number | undefined;
  exchange: Exchange;
  /** As `LmHeadInputs` names them. */
  inputs: Record<string, tf.Tensor | undefined>;
}

/** Whether `resolveCall` makes tensors, so that it has to run within a tidy. Nothing has been checked yet. */
export function makesTensors(
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  options: HeadOptions,
): boolean {
  const isReady = hidden instanceof tf.Tensor && (head instanceof LmHead || head instanceof tf.Tensor);
  return !isReady || !areTensors(options);
}

/**
 * Checks hidden, head and `HeadOptions`, whose keys are known.
 * @param headArgument name of the head's argument, for errors.
 */
export function resolveCall(
  op: string,
  headArgument: string,
  hidden: tf.Tensor | tf.TensorLike,
  head: LmHead | tf.Tensor | tf.TensorLike,
  options: HeadOptions,
): HeadCall {
  const { vocabStart = head instanceof LmHead ? head.vocabStart : 0 } = options;
  const exchange = resolveGroup(op, options.group);
  const data = resolveHead(op, headArgument, head, options.transposeWeight);
  const { vocabSize, hiddenSize } = data;
  const $hidden = toTensor(op, 'hidden', hidden, 'float32');
  checkInner(op, 'hidden', $hidden, hiddenSize, "the head's hiddenSize");
  checkInteger(op, 'vocabStart', vocabStart, 0, MAX_VOCAB_END - vocabSize);
  const leading = $hidden.shape.slice(0, -1);
  const rows = tf.util.sizeFromShape(leading);
  const { weight, bias } = data.tensors;
  if (bias !== undefined && options.bias !== undefined) {
    fail(op, 'bias', 'be left out with an LmHead that has a bias of its own', 'a second one');
  }
  // With another vocabStart than its own, a shard's ids are of a vocabulary that it does not know.
  const isAtOwnPlace = head instanceof LmHead && head.vocabStart === vocabStart;
  let wholeVocabSize = isAtOwnPlace ? head.wholeVocabSize : undefined;
  if (vocabStart === 0 && exchange === undefined) wholeVocabSize ??= vocabSize;
  const scores = scoreInputs(op, options, { leading, rows, vocabSize, vocabStart, wholeVocabSize });
  const inputs = inputsOf($hidden, undefined, weight, bias, scores);
  return { head: data, leading, rows, vocabStart, vocabSize, wholeVocabSize, exchange, inputs };
}

/** Kernel inputs, written out: a spread after another property costs each call more than a microsecond. */
function inputsOf(
  hidden: tf.Tensor,
  hiddenScale: tf.Tensor | undefined,
  weight: tf.Tensor,
  ownBias: tf.Tensor | undefined,
  { bias = ownBias, softCap, scale, adjustIds, adjustRepetition, adjustAdd, mask }: ScoreInputs,
): Record<string, tf.Tensor | undefined> {
  return { hidden, weight, hiddenScale, bias, softCap, scale, adjustIds, adjustRepetition, adjustAdd, mask };
}

/** A call of a binary head whose hidden is in 8 bits already, without options. */
export function quantizedCall(hidden: tf.Tensor, hiddenScale: tf.Tensor, head: HeadData): HeadCall {
  const { vocabSize } = head;
  const { weight, bias } = head.tensors;
  const inputs = inputsOf(hidden, hiddenScale, weight, bias, {});
  const leading = hidden.shape.slice(0, -1);
  const rows = tf.util.sizeFromShape(leading);
  return { head, leading, rows, vocabStart: 0, vocabSize, wholeVocabSize: vocabSize, exchange: undefined, inputs };
}

/** What kernels have to be told of a call's head. */
export function headAttrs({ head, vocabStart, vocabSize }: HeadCall): LmHeadAttrs {
  const { format, groupSize, transposeWeight } = head;
  return { format, groupSize, vocabSize: format === 'binary' ? vocabSize : 0, transposeWeight, vocabStart };
}

function resolveHead(
  op: string,
  argument: string,
  head: LmHead | tf.Tensor | tf.TensorLike,
  transposed: boolean | undefined,
): HeadData {
  if (head instanceof LmHead) {
    if (head.isDisposed) fail(op, argument, 'be a head that exists', 'one that has been disposed');
    if (transposed !== undefined) {
      fail(op, 'transposeWeight', 'be left out with an LmHead, which knows its layout', String(transposed));
    }
    return head;
  }
  const transposeWeight = transposed ?? false;
  checkBoolean(op, 'transposeWeight', transposeWeight);
  const { matrix: weight, vocabSize, hiddenSize } = toWeight(op, argument, head, transposeWeight);
  return { format: 'float32', vocabSize, hiddenSize, groupSize: 0, transposeWeight, tensors: { weight } };
}
