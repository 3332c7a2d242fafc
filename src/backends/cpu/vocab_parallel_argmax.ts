import * as tf from '@tensorflow/tfjs-core';
import type { VocabParallelArgmaxAttrs, VocabParallelArgmaxInputs } from '../../kernel_names';
import { VocabParallelArgmax } from '../../kernel_names';
import { Best } from '../../common/candidates';
import { orderKey } from '../../common/order';
import { read } from './io';

/** The shards among a kernel's inputs, in their order: shard0, shard1, ... */
export function shardList(inputs: VocabParallelArgmaxInputs): tf.TensorInfo[] {
  const shards: tf.TensorInfo[] = [];
  for (let shard = inputs.shard0; shard !== undefined; shard = inputs[`shard${shards.length}`]) shards.push(shard);
  return shards;
}

export const vocabParallelArgmaxConfig: tf.KernelConfig = {
  kernelName: VocabParallelArgmax,
  backendName: 'cpu',
  kernelFunc: ({ inputs, attrs }) => {
    const { vocabStart, vocabSize, columnMajor } = attrs as unknown as VocabParallelArgmaxAttrs;
    const shards = shardList(inputs);
    const rows = shards[0].shape[columnMajor ? 1 : 0];
    const best = Array.from({ length: rows }, () => new Best());
    let first = 0;
    for (const shard of shards) {
      const columns = shard.shape[columnMajor ? 0 : 1];
      const values = read(shard);
      for (let column = 0; column < Math.min(columns, vocabSize - first); column++) {
        for (let row = 0; row < rows; row++) {
          const value = values[columnMajor ? column * rows + row : row * columns + column];
          best[row].offer(orderKey(value), vocabStart + first + column);
        }
      }
      first += columns;
    }
    return tf.tensor(
      Int32Array.from(best, ({ id }) => id),
      [rows],
      'int32',
    );
  },
};
