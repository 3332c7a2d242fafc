import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { BinarizeHeadAttrs, BinarizeHeadInputs } from '../../kernel_names';
import { BinarizeHead } from '../../kernel_names';
import { runOp } from './op';

export const binarizeHeadConfig: KernelConfig = {
  kernelName: BinarizeHead,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { weight } = inputs as BinarizeHeadInputs;
    const { groupSize } = attrs as unknown as BinarizeHeadAttrs;
    return runOp(backend, BinarizeHead, { group_size: groupSize }, [weight], 2);
  },
};
