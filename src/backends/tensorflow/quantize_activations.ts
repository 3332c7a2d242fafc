import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { QuantizeActivationsInputs } from '../../kernel_names';
import { QuantizeActivations } from '../../kernel_names';
import { runOp } from './op';

export const quantizeActivationsConfig: KernelConfig = {
  kernelName: QuantizeActivations,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, backend }) => {
    const { hidden } = inputs as QuantizeActivationsInputs;
    return runOp(backend, QuantizeActivations, {}, [hidden], 2);
  },
};
