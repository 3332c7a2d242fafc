/** The part of gpt-tfjs (which has no types of its own) that the demo uses. */
declare module 'gpt-tfjs' {
  import type { data, LayersModel, Tensor, TensorContainer } from '@tensorflow/tfjs-node-gpu';

  interface GptConfig {
    vocabSize: number;
    blockSize: number;
    nLayer: number;
    nHead: number;
    nEmbd: number;
    dropout: number;
    embdDrop: number;
    residDrop: number;
  }

  interface TrainConfig {
    /** Passes over the dataset. */
    epochs: number;
    batchSize: number;
    /** Size of the buffer that examples are drawn from; 1 keeps their order. */
    shuffle: number;
    lr: number;
    callbacks: ((model: LayersModel, loss: number, iteration: number) => void | Promise<void>)[];
  }

  interface GptModel {
    /** int32 token ids [batch, length] to float32 logits [batch, length, vocabSize]. */
    readonly model: LayersModel;
    train(dataset: data.Dataset<TensorContainer>, config: TrainConfig): Promise<void>;
    predict(ids: Tensor): Tensor;
  }

  export const model: { GPTLMHeadModel(config: GptConfig): GptModel };
}
