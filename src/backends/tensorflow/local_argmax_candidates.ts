import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { LocalArgmaxCandidatesAttrs, LocalArgmaxCandidatesInputs } from '../../kernel_names';
import { LocalArgmaxCandidates } from '../../kernel_names';
import { runOp, type OpAttrs } from './op';

export const localArgmaxCandidatesConfig: KernelConfig = {
  kernelName: LocalArgmaxCandidates,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const { logits } = inputs as LocalArgmaxCandidatesInputs;
    const { vocabStart, vocabSize, columnMajor } = attrs as unknown as LocalArgmaxCandidatesAttrs;
    // Defaults are left to the op, and T to TensorFlow, which sees the tensor: an attribute costs host time.
    const opAttrs: OpAttrs = { vocab_size: vocabSize };
    if (vocabStart !== 0) opAttrs['vocab_start'] = vocabStart;
    if (columnMajor) opAttrs['column_major'] = true;
    return runOp(backend, LocalArgmaxCandidates, opAttrs, [logits], 1)[0];
  },
};
