import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadRanksAttrs, LmHeadRanksInputs } from '../../kernel_names';
import { LmHeadRanks } from '../../kernel_names';
import { lmHeadRanks } from '../cpu/lm_head_ranks';
import { sweepChunks } from './sweep';

export const lmHeadRanksConfig: KernelConfig = {
  kernelName: LmHeadRanks,
  backendName: 'composed',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadRanks(sweepChunks, inputs as LmHeadRanksInputs, attrs as unknown as LmHeadRanksAttrs),
};
