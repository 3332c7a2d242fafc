/** The rows of a head that a rank holds. */
import * as tf from '@tensorflow/tfjs-core';
import { checkBoolean, checkOptions, describe, fail, toBias } from '../common/validate';
import type { ShardRangeOptions } from '../group/shard_range';
import { shardRange } from '../group/shard_range';
import type { HeadFormat } from '../kernel_names';
import type { BinarizeHeadOptions } from './binary_head';
import { binarizedHead } from './binary_head';
import type { DenseHeadOptions } from './dense_head';
import { denseHead, toWeight } from './dense_head';
import type { HeadData, HeadPlace } from './head_data';

export interface ShardHeadOptions extends ShardRangeOptions, BinarizeHeadOptions, Pick<DenseHeadOptions, 'transposed'> {
  /** As `head.format`. Default 'float32'. */
  format?: HeadFormat;
}

/** See `LmHead.shard`. Call it within a tidy. */
export function shardHead(
  op: string,
  weight: tf.Tensor | tf.TensorLike,
  options: ShardHeadOptions,
): HeadData & HeadPlace {
  checkOptions(op, options, ['rank', 'worldSize', 'multipleOf', 'format', 'bias', 'transposed', 'groupSize']);
  const { format = 'float32', transposed = false, groupSize, bias } = options;
  checkBoolean(op, 'transposed', transposed);
  if (!['float32', 'bfloat16', 'float16', 'binary'].includes(format)) {
    fail(op, 'format', "be 'float32', 'bfloat16', 'float16' or 'binary'", describe(format));
  }
  if (format === 'binary' && transposed) fail(op, 'transposed', "be left out with format 'binary'", 'true');
  if (format !== 'binary' && groupSize !== undefined) {
    fail(op, 'groupSize', `be left out with format '${format}'`, describe(groupSize));
  }
  const { matrix, vocabSize, hiddenSize } = toWeight(op, 'weight', weight, transposed);
  const { rank, worldSize, multipleOf } = options;
  const { begin, end } = shardRange(op, vocabSize, { rank, worldSize, multipleOf });
  // Kernels that pack want a row; one that holds none is made of the first, which is then cut away.
  const [first, count] = begin < end ? [begin, end - begin] : [0, 1];
  const rows = transposed
    ? tf.slice(matrix, [0, first], [hiddenSize, count])
    : tf.slice(matrix, [first, 0], [count, hiddenSize]);
  const rowsBias = bias === undefined ? undefined : tf.slice(toBias(op, bias, vocabSize), [first], [count]);
  const data =
    format === 'binary'
      ? binarizedHead(op, rows, { groupSize, bias: rowsBias })
      : denseHead(op, rows, { dtype: format, transposed, bias: rowsBias });
  const place = { vocabStart: begin, wholeVocabSize: vocabSize };
  return { ...(begin < end ? data : withoutRows(data)), ...place };
}

/** The same head with no rows. */
function withoutRows(data: HeadData): HeadData {
  const { weight, bias } = data.tensors;
  const shape: [number, number] = data.transposeWeight ? [weight.shape[0], 0] : [0, weight.shape[1]];
  const tensors = {
    weight: tf.tensor2d([], shape, weight.dtype),
    bias: bias && tf.tensor1d([], 'float32'),
  };
  return { ...data, vocabSize: 0, tensors };
}
