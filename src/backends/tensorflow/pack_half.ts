import type { KernelConfig } from '@tensorflow/tfjs-core';
import { HALF_ROW_MULTIPLE } from '../../common/half';
import type { PackHalfAttrs, PackHalfInputs } from '../../kernel_names';
import { PackHalf } from '../../kernel_names';
import { runOp } from './op';

export const packHalfConfig: KernelConfig = {
  kernelName: PackHalf,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { x } = inputs as PackHalfInputs;
    const { format, transpose } = attrs as unknown as PackHalfAttrs;
    return runOp(backend, PackHalf, { format, transpose, multiple_of: HALF_ROW_MULTIPLE }, [x], 1)[0];
  },
};
