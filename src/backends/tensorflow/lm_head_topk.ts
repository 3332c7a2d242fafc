import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { runOp, type OpAttrs } from './op';
import { addScoreInputs } from './score_inputs';

export const lmHeadTopKConfig: KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { hidden, weight } = inputs as LmHeadTopKInputs;
    const { format, k, groupSize, vocabSize, transposeWeight, vocabStart, logSumExp, logSumState, group, host } =
      attrs as unknown as LmHeadTopKAttrs;
    // Defaults are left to the op, and Tweight to TensorFlow, which sees the tensor: an attribute costs host time.
    const opAttrs: OpAttrs = { format, k };
    if (logSumExp) opAttrs['num_log_sum_exp'] = 1;
    if (logSumState) opAttrs['num_log_sum_state'] = 1;
    if (groupSize !== 0) opAttrs['group_size'] = groupSize;
    if (vocabSize !== 0) opAttrs['vocab_size'] = vocabSize;
    if (transposeWeight) opAttrs['transpose_weight'] = true;
    if (vocabStart !== 0) opAttrs['vocab_start'] = vocabStart;
    if (group) opAttrs['group'] = group;
    const tensors = [hidden, weight];
    addScoreInputs(inputs as LmHeadTopKInputs, tensors, opAttrs);
    const outputs = 2 + Number(logSumExp) + Number(logSumState ?? false);
    return runOp(backend, host ? `${LmHeadTopK}Host` : LmHeadTopK, opAttrs, tensors, outputs);
  },
};
