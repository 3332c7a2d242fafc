import type { KernelConfig } from '@tensorflow/tfjs-core';
import type { VocabParallelArgmaxAttrs } from '../../kernel_names';
import { VocabParallelArgmax } from '../../kernel_names';
import { shardList } from '../cpu/vocab_parallel_argmax';
import { runOp, type OpAttrs } from './op';

export const vocabParallelArgmaxConfig: KernelConfig = {
  kernelName: VocabParallelArgmax,
  backendName: 'tensorflow',
  kernelFunc: ({ inputs, attrs, backend }) => {
    const shards = shardList(inputs);
    const { vocabStart, vocabSize, columnMajor, group, host } = attrs as unknown as VocabParallelArgmaxAttrs;
    // Defaults are left to the op: an attribute costs host time.
    const opAttrs: OpAttrs = { N: shards.length, T: { dtype: shards[0].dtype }, vocab_size: vocabSize };
    if (vocabStart !== 0) opAttrs['vocab_start'] = vocabStart;
    if (columnMajor) opAttrs['column_major'] = true;
    if (group) opAttrs['group'] = group;
    return runOp(backend, host ? `${VocabParallelArgmax}Host` : VocabParallelArgmax, opAttrs, shards, 1)[0];
  },
};
