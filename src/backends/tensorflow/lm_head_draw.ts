import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadDrawAttrs, LmHeadDrawInputs } from '../../kernel_names';
import { LmHeadDraw } from '../../kernel_names';
import { runOp } from './op';
import { addScoreInputs, headOpAttrs } from './score_inputs';

export const lmHeadDrawConfig: KernelConfig = {
  kernelName: LmHeadDraw,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { hidden, weight, temperature, seed, rowIds } = inputs as LmHeadDrawInputs;
    const { logSumExp, logSumState } = attrs as unknown as LmHeadDrawAttrs;
    const opAttrs = headOpAttrs(attrs as unknown as LmHeadDrawAttrs);
    if (logSumExp) opAttrs['num_log_sum_exp'] = 1;
    if (logSumState) opAttrs['num_log_sum_state'] = 1;
    const tensors = [hidden, weight];
    addScoreInputs(inputs as LmHeadDrawInputs, tensors, opAttrs);
    tensors.push(temperature, seed);
    if (rowIds !== undefined) {
      tensors.push(rowIds);
      opAttrs['num_row_ids'] = 1;
    }
    const outputs = 2 + Number(logSumExp) + Number(logSumState ?? false);
    return runOp(backend, LmHeadDraw, opAttrs, tensors, outputs);
  },
};
