import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { PackHalfAttrs, PackHalfInputs } from '../../kernel_names';
import { PackHalf } from '../../kernel_names';
import { runOp } from './op';

export const packHalfConfig: KernelConfig = {
  kernelName: PackHalf,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { x } = inputs as PackHalfInputs;
    const { format, transpose, multipleOf } = attrs as unknown as PackHalfAttrs;
    return runOp(backend, PackHalf, { format, transpose, multiple_of: multipleOf }, [x], 1)[0];
  },
};
