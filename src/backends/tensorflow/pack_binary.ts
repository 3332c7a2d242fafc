import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { PackBinaryAttrs, PackBinaryInputs, UnpackBinaryAttrs, UnpackBinaryInputs } from '../../kernel_names';
import { PackBinary, UnpackBinary } from '../../kernel_names';
import { runOp } from './op';

export const packBinaryConfig: KernelConfig = {
  kernelName: PackBinary,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { bits, scales } = inputs as PackBinaryInputs;
    const { groupSize } = attrs as unknown as PackBinaryAttrs;
    return runOp(backend, PackBinary, { group_size: groupSize }, [bits, scales], 1)[0];
  },
};

export const unpackBinaryConfig: KernelConfig = {
  kernelName: UnpackBinary,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { packed } = inputs as UnpackBinaryInputs;
    const { vocabSize, hiddenSize, groupSize } = attrs as unknown as UnpackBinaryAttrs;
    const opAttrs = { vocab_size: vocabSize, hidden_size: hiddenSize, group_size: groupSize };
    return runOp(backend, UnpackBinary, opAttrs, [packed], 2);
  },
};
