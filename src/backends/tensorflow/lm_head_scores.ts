import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadScoresAttrs, LmHeadScoresInputs } from '../../kernel_names';
import { LmHeadScores } from '../../kernel_names';
import { runOp } from './op';
import { addScoreInputs, headOpAttrs } from './score_inputs';

export const lmHeadScoresConfig: KernelConfig = {
  kernelName: LmHeadScores,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { hidden, weight, ids } = inputs as LmHeadScoresInputs;
    const opAttrs = headOpAttrs(attrs as unknown as LmHeadScoresAttrs);
    const tensors = [hidden, weight];
    addScoreInputs(inputs as LmHeadScoresInputs, tensors, opAttrs);
    tensors.push(ids);
    return runOp(backend, LmHeadScores, opAttrs, tensors, 1)[0];
  },
};
