import * as tf from '@tensorflow/tfjs-node-gpu';
import { BLOCK_SIZE, type Gpt } from './model';
import { seededRandom } from './random';
import { registerFastTileGradient } from './tile_gradient';

const BATCH_SIZE = 16;
/** Large steps first, then small ones, which let the model settle. `until` is a share of all steps and of all the time. */
const PHASES = [
  { until: 0.7, learningRate: 2e-3 },
  { until: 1, learningRate: 4e-4 },
];

export interface TrainLimits {
  /** Training stops after this many seconds … */
  seconds: number;
  /** … or after this many steps, whichever comes first. */
  steps: number;
}

/**
 * Trains `gpt` to predict each next token of `ids`, with gpt-tfjs's own training loop.
 * Returns the number of steps made; `onStep` gets each step's number and loss.
 */
export async function train(
  gpt: Gpt,
  ids: readonly number[],
  vocabSize: number,
  limits: TrainLimits,
  onStep: (step: number, loss: number) => void,
): Promise<number> {
  registerFastTileGradient();
  const random = seededRandom(1);
  const start = performance.now();
  let steps = 0;
  for (const { until, learningRate } of PHASES) {
    const phase = { steps: Math.round(until * limits.steps) - steps, deadline: start + 1000 * until * limits.seconds };
    // One epoch over a dataset that ends when the limits are reached: that is how the loop is made to stop in time.
    const dataset = tf.data.generator(() => samples(ids, vocabSize, phase, random));
    await gpt.train(dataset, {
      epochs: 1,
      batchSize: BATCH_SIZE,
      shuffle: 1,
      lr: learningRate,
      callbacks: [(_model, loss) => onStep(++steps, loss)],
    });
  }
  return steps;
}

/** Windows of the text at random places: x holds token ids, y the tokens that follow them, one-hot. */
function* samples(
  ids: readonly number[],
  vocabSize: number,
  phase: { steps: number; deadline: number },
  random: () => number,
): Generator<tf.TensorContainer> {
  for (let step = 0; step < phase.steps && performance.now() < phase.deadline; step++) {
    for (let i = 0; i < BATCH_SIZE; i++) {
      const start = Math.floor(random() * (ids.length - BLOCK_SIZE));
      yield tf.tidy(() => {
        const window = tf.tensor1d(ids.slice(start, start + BLOCK_SIZE + 1), 'int32');
        const next = window.slice(1, BLOCK_SIZE);
        return { x: window.slice(0, BLOCK_SIZE), y: tf.oneHot(next, vocabSize, 1, 0, 'float32') };
      });
    }
  }
}
