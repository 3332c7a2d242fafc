import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LocalArgmaxCandidatesAttrs, LocalArgmaxCandidatesInputs } from '../../kernel_names';
import { LocalArgmaxCandidates } from '../../kernel_names';
import { runOp } from './op';

export const localArgmaxCandidatesConfig: KernelConfig = {
  kernelName: LocalArgmaxCandidates,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { logits } = inputs as LocalArgmaxCandidatesInputs;
    const { vocabStart, vocabSize, columnMajor } = attrs as unknown as LocalArgmaxCandidatesAttrs;
    const opAttrs = {
      T: { dtype: logits.dtype },
      vocab_start: vocabStart,
      vocab_size: vocabSize,
      column_major: columnMajor,
    };
    return runOp(backend, LocalArgmaxCandidates, opAttrs, [logits], 1)[0];
  },
};
