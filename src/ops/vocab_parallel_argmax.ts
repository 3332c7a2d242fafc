import * as tf from '@tensorflow/tfjs-core';
import type { VocabParallelArgmaxAttrs } from '../kernel_names';
import { VocabParallelArgmax } from '../kernel_names';
import type { ShardGroup } from '../group/shard_group';
import type { LocalArgmaxCandidatesOptions } from './local_argmax_candidates';
import { checkArgmaxOptions, checkVocab, toLogits } from './local_argmax_candidates';
import { runKernel } from '../common/run_kernel';
import { resolveGroup, runInGroup } from '../group/shard_exchange';
import { checkBoolean, fail, shapeText } from '../common/validate';
import { argmaxOverTransport } from '../group/vocab_parallel_argmax_group';

export interface VocabParallelArgmaxOptions extends LocalArgmaxCandidatesOptions {
  /** The processes that hold the other shards: a `TensorParallelGroup`, or a transport of your own. Default: none. */
  group?: ShardGroup;
  /** Whether the call waits for the ids and brings them to host memory, so that reading them is free. Default false. */
  host?: boolean;
}

/**
 * Argmax over a vocabulary that may be cut into shards: the same token as argmax over the concatenated logits, for every
 * input. NaN ranks first, then the larger logit, and of equal logits the lower id (-0 equals +0).
 *
 * ```js
 * vocabParallelArgmax(tf.tensor2d([[1, 5, 5], [9, 2, 3]])).print();                  // [1, 0]
 * vocabParallelArgmax([tf.tensor2d([[1, 5]]), tf.tensor2d([[5, 7, 2]])]).print();    // [3]
 * ```
 *
 * With `group` the shards lie in several processes, each of which gives its own and its `vocabStart`; all get the same tokens:
 *
 * ```js
 * vocabParallelArgmax(myLogits, {vocabStart: 32000 * group.rank, group});
 * ```
 *
 * @param logits float32 [..., columns], of rank 1 or higher; or an array of tensors, the shards in the order of their
 *     ids, which may differ in their number of columns alone. With `columnMajor` each is float32 [columns, rows], that
 *     is, [rows, columns] in column-major order.
 * @param options `vocabStart` (default 0), id of the first column; `vocabSize` (default: all), how many columns count, of
 *     all shards together: padding from there on never wins; `columnMajor` (default false); `host` (default false), with
 *     which the call returns when the ids lie in host memory, so that `dataSync` costs nothing more; `group`, with which
 *     `logits` is this rank's shard alone, `vocabStart` and `vocabSize` are about it, and either may have no column (the rank
 *     offers nothing then). Every rank has to make the same call, in the same order as its other calls.
 * @returns int32 [...], or [rows] with `columnMajor`: ids counted from `vocabStart`.
 * @throws Error on a wrong rank, shape or dtype, a disposed tensor, no shards, options out of range or unknown; with
 *     `group` also when it is closed or fails, and when its ranks make different calls or hold the same ids.
 *
 * @doc {heading: 'Operations', subheading: 'Evaluation'}
 */
export function vocabParallelArgmax(
  logits: tf.Tensor | tf.TensorLike | tf.Tensor[],
  options: VocabParallelArgmaxOptions = {},
): tf.Tensor {
  const op = 'vocabParallelArgmax';
  const makesTensors = !(logits instanceof tf.Tensor && logits.rank === 2);
  return runInGroup(op, options, makesTensors, () => {
    checkArgmaxOptions(op, options, ['group', 'host']);
    const { vocabStart = 0, columnMajor = false, host = false } = options;
    checkBoolean(op, 'host', host);
    const exchange = resolveGroup(op, options.group);
    if (options.group !== undefined && isShardList(logits)) {
      fail(op, 'logits', "be one tensor, this rank's shard, when group is set", `an array of ${logits.length}`);
    }
    const least = exchange === undefined ? 1 : 0;
    const shards = isShardList(logits)
      ? logits.map((shard, i) => toLogits(op, `logits[${i}]`, shard, columnMajor))
      : [toLogits(op, 'logits', logits, columnMajor, least)];
    if (shards.length === 0) fail(op, 'logits', 'hold at least one shard', 'an empty array');
    const [{ leading, rows }] = shards;
    for (let i = 1; i < shards.length; i++) {
      const actual = shapeText(shards[i].leading);
      if (actual !== shapeText(leading)) {
        fail(op, `logits[${i}]`, `have rows of shape ${shapeText(leading)}, as logits[0]`, actual);
      }
    }
    const columns = shards.reduce((sum, shard) => sum + shard.columns, 0);
    const vocabSize = checkVocab(op, options, columns, least);
    if (rows === 0) return tf.tensor([], leading, 'int32');
    const attrs: VocabParallelArgmaxAttrs = { vocabStart, vocabSize, columnMajor, host };
    let ids: tf.Tensor;
    if (exchange !== undefined && 'transport' in exchange) {
      ids = argmaxOverTransport(op, exchange.transport, shards[0].matrix, rows, attrs);
    } else {
      const inputs: tf.NamedTensorMap = {};
      shards.forEach(({ matrix }, i) => (inputs[`shard${i}`] = matrix));
      if (exchange !== undefined) attrs.group = exchange.handle;
      ids = runKernel(VocabParallelArgmax, inputs, attrs);
    }
    return leading.length === 1 ? ids : tf.reshape(ids, leading);
  });
}

/** An array that holds a tensor is one of shards; an array of numbers is a TensorLike. */
function isShardList(logits: tf.Tensor | tf.TensorLike | tf.Tensor[]): logits is tf.Tensor[] {
  return (
    Array.isArray(logits) && (logits.length === 0 || logits.some((shard) => (shard as unknown) instanceof tf.Tensor))
  );
}
