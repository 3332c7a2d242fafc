import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadRanksAttrs, LmHeadRanksInputs } from '../../kernel_names';
import { LmHeadRanks } from '../../kernel_names';
import { runOp } from './op';
import { addScoreInputs, headOpAttrs } from './score_inputs';

export const lmHeadRanksConfig: KernelConfig = {
  kernelName: LmHeadRanks,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { hidden, weight, ids, scores } = inputs as LmHeadRanksInputs;
    const { logSumState } = attrs as unknown as LmHeadRanksAttrs;
    const opAttrs = headOpAttrs(attrs as unknown as LmHeadRanksAttrs);
    if (logSumState) opAttrs['num_log_sum_state'] = 1;
    const tensors = [hidden, weight];
    addScoreInputs(inputs as LmHeadRanksInputs, tensors, opAttrs);
    tensors.push(ids, scores);
    return runOp(backend, LmHeadRanks, opAttrs, tensors, logSumState ? 3 : 2);
  },
};
