import * as tf from '@tensorflow/tfjs-node-gpu';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
import { BLOCK_SIZE, type Gpt } from './model';
import { median } from './median';

/** Picks the token after `context`, int32 [1, length]. */
export type NextToken = (context: tf.Tensor2D) => number;

export interface Generation {
  ids: number[];
  /** Median time of one token. */
  msPerToken: number;
}

/** The two ways to the next token; both run the same trunk. */
export interface Heads {
  /** The model as it is: its own head scores every position of the context, and argMax reads the last one's scores. */
  stock: NextToken;
  /** The trunk alone, then `lmHeadTopK` with k = 1 on the last position. */
  fused: NextToken;
  /** Median times of the last step alone: one hidden vector in, one token id out. */
  timeHeads(context: readonly number[]): { stockHeadMs: number; fusedHeadMs: number };
  /** Difference of the two best scores after `context`: where it is close to 0, rounding decides. */
  topGap(context: readonly number[]): number;
  dispose(): void;
}

export function createHeads(gpt: Gpt): Heads {
  const headLayer = gpt.model.getLayer('lm_head');
  const trunk = tf.model({ inputs: gpt.model.inputs, outputs: headLayer.input });
  // The kernel of a dense layer is [hiddenSize, vocabSize]; the layer keeps it, so it is not disposed here.
  const kernel = headLayer.getWeights()[0] as tf.Tensor2D;
  const head = LmHead.dense(kernel, { dtype: 'float32', transposed: true });

  const lastRow = (output: tf.Tensor) => {
    const [, length, width] = output.shape;
    return output.slice([0, length - 1, 0], [1, 1, width]).reshape<tf.Tensor2D>([1, width]);
  };
  const hiddenAfter = (context: tf.Tensor2D) => lastRow(trunk.predict(context) as tf.Tensor);
  const stockHead = (hidden: tf.Tensor2D) => tf.matMul(hidden, kernel).argMax(-1).dataSync()[0];
  const fusedHead = (hidden: tf.Tensor2D) => lmHeadTopK(hidden, head, 1).indices.dataSync()[0];

  return {
    stock: (context) => lastRow(gpt.predict(context)).argMax(-1).dataSync()[0],
    fused: (context) => fusedHead(hiddenAfter(context)),
    timeHeads: (context) =>
      tf.tidy(() => {
        const hidden = hiddenAfter(toTensor(context));
        return {
          stockHeadMs: medianMs(() => stockHead(hidden), 200),
          fusedHeadMs: medianMs(() => fusedHead(hidden), 200),
        };
      }),
    topGap: (context) =>
      tf.tidy(() => {
        const [best, second] = lastRow(gpt.predict(toTensor(context)))
          .topk(2)
          .values.dataSync();
        return best - second;
      }),
    dispose: () => head.dispose(),
  };
}

/** Continues `prompt` by `count` tokens, each the best one after the `BLOCK_SIZE` tokens before it. */
export function generate(next: NextToken, prompt: readonly number[], count: number): Generation {
  const ids = [...prompt];
  const times: number[] = [];
  const step = () => tf.tidy(() => next(toTensor(ids)));
  for (let i = 0; i < 5; i++) step(); // The first calls load libraries and allocate memory.
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    const id = step();
    times.push(performance.now() - start);
    ids.push(id);
  }
  return { ids: ids.slice(prompt.length), msPerToken: median(times) };
}

function toTensor(ids: readonly number[]): tf.Tensor2D {
  return tf.tensor2d([ids.slice(-BLOCK_SIZE)], undefined, 'int32');
}

function medianMs(run: () => void, repeats: number): number {
  const times: number[] = [];
  for (let i = -10; i < repeats; i++) {
    const start = performance.now();
    tf.tidy(run);
    if (i >= 0) times.push(performance.now() - start); // The first ten only warm up.
  }
  return median(times);
}
