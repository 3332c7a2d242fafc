import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { runOp } from './op';
import { addScoreInputs, headOpAttrs } from './score_inputs';

export const lmHeadTopKConfig: KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { hidden, weight } = inputs as LmHeadTopKInputs;
    const { k, logSumExp, logSumState, group, host } = attrs as unknown as LmHeadTopKAttrs;
    const opAttrs = headOpAttrs(attrs as unknown as LmHeadTopKAttrs);
    opAttrs['k'] = k;
    if (logSumExp) opAttrs['num_log_sum_exp'] = 1;
    if (logSumState) opAttrs['num_log_sum_state'] = 1;
    if (group) opAttrs['group'] = group;
    const tensors = [hidden, weight];
    addScoreInputs(inputs as LmHeadTopKInputs, tensors, opAttrs);
    const outputs = 2 + Number(logSumExp) + Number(logSumState ?? false);
    return runOp(backend, host ? `${LmHeadTopK}Host` : LmHeadTopK, opAttrs, tensors, outputs);
  },
};
