/** The five lines of the README: a head, one call, the best five ids. */
import * as tf from '@tensorflow/tfjs-node-gpu';
import { LmHead, lmHeadTopK } from 'tfjs-lm-head';
const head = LmHead.dense(tf.randomNormal([32000, 512]), { dtype: 'bfloat16' }); // your weights, [vocabSize, hiddenSize]
const { indices } = lmHeadTopK(tf.randomNormal([1, 512]), head, 5); // your hidden state, [..., hiddenSize]
indices.print();
