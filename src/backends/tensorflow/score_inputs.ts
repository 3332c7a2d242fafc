/** The attributes and optional inputs that all native ops share which score a head. */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import type { LmHeadAttrs, LmHeadInputs } from '../../kernel_names';
import type { OpAttrs } from './op';

/** In the op's order, each with the attribute that counts it. */
const INPUTS = [
  ['hiddenScale', 'num_hidden_scale'],
  ['bias', 'num_bias'],
  ['softCap', 'num_soft_cap'],
  ['scale', 'num_scale'],
  ['adjustIds', 'num_adjust_ids'],
  ['adjustRepetition', 'num_adjust_repetition'],
  ['adjustAdd', 'num_adjust_add'],
  ['mask', 'num_mask'],
] as const;

/** Appends those of `inputs` that are there to the op's tensors, and says so in its attributes. */
export function addScoreInputs(inputs: LmHeadInputs, tensors: TensorInfo[], attrs: OpAttrs): void {
  for (const [name, count] of INPUTS) {
    const tensor = inputs[name];
    if (tensor === undefined) continue;
    tensors.push(tensor);
    attrs[count] = 1;
  }
}

/** The op's attributes of the head. Defaults are left to the op, and Tweight to TensorFlow: an attribute costs host time. */
export function headOpAttrs({ format, groupSize, vocabSize, transposeWeight, vocabStart }: LmHeadAttrs): OpAttrs {
  const opAttrs: OpAttrs = { format };
  if (groupSize !== 0) opAttrs['group_size'] = groupSize;
  if (vocabSize !== 0) opAttrs['vocab_size'] = vocabSize;
  if (transposeWeight) opAttrs['transpose_weight'] = true;
  if (vocabStart !== 0) opAttrs['vocab_start'] = vocabStart;
  return opAttrs;
}
