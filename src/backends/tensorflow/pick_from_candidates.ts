import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { PickFromCandidatesInputs } from '../../kernel_names';
import { PickFromCandidates } from '../../kernel_names';
import { runOp } from './op';

export const pickFromCandidatesConfig: KernelConfig = {
  kernelName: PickFromCandidates,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, backend }) => {
    const { candidates } = inputs as PickFromCandidatesInputs;
    return runOp(backend, PickFromCandidates, {}, [candidates], 1)[0];
  },
};
