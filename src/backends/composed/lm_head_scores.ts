import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadScoresAttrs, LmHeadScoresInputs } from '../../kernel_names';
import { LmHeadScores } from '../../kernel_names';
import { lmHeadScores } from '../cpu/lm_head_scores';
import { sweepChunks } from './sweep';

export const lmHeadScoresConfig: KernelConfig = {
  kernelName: LmHeadScores,
  backendName: 'composed',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadScores(sweepChunks, inputs as LmHeadScoresInputs, attrs as unknown as LmHeadScoresAttrs),
};
