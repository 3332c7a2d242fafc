import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { runOp } from './op';

export const lmHeadTopKConfig: KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { hidden, weight, scales, bias } = inputs as LmHeadTopKInputs;
    const { format, k, groupSize, transposeWeight, vocabStart, logSumExp } = attrs as unknown as LmHeadTopKAttrs;
    const opAttrs = {
      Tweight: { dtype: weight.dtype },
      num_scales: scales ? 1 : 0,
      num_bias: bias ? 1 : 0,
      num_log_sum_exp: logSumExp ? 1 : 0,
      format,
      k,
      group_size: groupSize,
      transpose_weight: transposeWeight,
      vocab_start: vocabStart,
    };
    const tensors = [hidden, weight, ...(scales ? [scales] : []), ...(bias ? [bias] : [])];
    return runOp(backend, LmHeadTopK, opAttrs, tensors, logSumExp ? 3 : 2);
  },
};
