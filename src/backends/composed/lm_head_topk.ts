import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadTopKAttrs, LmHeadTopKInputs } from '../../kernel_names';
import { LmHeadTopK } from '../../kernel_names';
import { lmHeadTopK } from '../cpu/lm_head_topk';
import { sweepChunks } from './sweep';

export const lmHeadTopKConfig: KernelConfig = {
  kernelName: LmHeadTopK,
  backendName: 'composed',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadTopK(sweepChunks, inputs as LmHeadTopKInputs, attrs as unknown as LmHeadTopKAttrs),
};
