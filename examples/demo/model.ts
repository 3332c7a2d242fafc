import * as tf from '@tensorflow/tfjs-node-gpu';
import { model as gpt } from 'gpt-tfjs';

export type Gpt = ReturnType<typeof gpt.GPTLMHeadModel>;

/** The longest context that the model sees, in tokens. */
export const BLOCK_SIZE = 64;

/** A small GPT whose first weights are the same on every run. */
export function createModel(vocabSize: number): Gpt {
  const shape = { vocabSize, blockSize: BLOCK_SIZE, nLayer: 2, nHead: 4, nEmbd: 128 };
  const gptModel = gpt.GPTLMHeadModel({ ...shape, dropout: 0, embdDrop: 0, residDrop: 0 });
  seedWeights(gptModel.model);
  return gptModel;
}

/** GPT-2's start: matrices are normal with deviation 0.02; biases and layer normalizations stay as they are. */
function seedWeights(model: tf.LayersModel): void {
  tf.tidy(() => {
    const weights = model.getWeights().map((weight, i) => {
      return weight.rank < 2 ? weight : tf.randomNormal(weight.shape, 0, 0.02, 'float32', i + 1);
    });
    model.setWeights(weights);
  });
}
