import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LmHeadDrawAttrs, LmHeadDrawInputs } from '../../kernel_names';
import { LmHeadDraw } from '../../kernel_names';
import { lmHeadDraw } from '../cpu/lm_head_draw';
import { sweepChunks } from './sweep';

export const lmHeadDrawConfig: KernelConfig = {
  kernelName: LmHeadDraw,
  backendName: 'composed',
  kernelFunc: ({ inputs, attrs }) =>
    lmHeadDraw(sweepChunks, inputs as LmHeadDrawInputs, attrs as unknown as LmHeadDrawAttrs),
};
