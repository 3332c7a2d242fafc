import { readFileSync } from 'node:fs';
import * as tf from '@tensorflow/tfjs-node-gpu';
import { deviceName } from '../demo/device';
import { readText } from '../demo/text';
import { compareHeads, type HeadResult } from './compare';
import { hiddenVectors } from './hidden';
import { MODEL_NAME, modelFiles } from './model_files';
import { readMatrix } from './safetensors';
import { WordPieces } from './word_pieces';

export interface Comparison {
  model: string;
  /** 'cpu', or the name of the GPU. */
  device: string;
  vocabSize: number;
  hiddenSize: number;
  /** Hidden vectors that were compared. */
  rows: number;
  heads: HeadResult[];
}

/** Compares the heads of the downloaded model on vectors of the demo's book; `log` gets lines for a reader. */
export async function runComparison(rows: number, log: (line: string) => void): Promise<Comparison> {
  const { weights, vocabulary } = await modelFiles(log);
  const embeddings = readMatrix(weights, 'embeddings.word_embeddings.weight');
  const tokens = new WordPieces(readFileSync(vocabulary, 'utf8').trimEnd().split('\n')).encode(readText());
  log(`Comparing the best of ${embeddings.rows} scores of ${rows} vectors of ${embeddings.columns} numbers …`);
  await tf.ready();
  const heads = compareHeads(embeddings, hiddenVectors(embeddings, tokens, rows));
  return {
    model: MODEL_NAME,
    device: deviceName(),
    vocabSize: embeddings.rows,
    hiddenSize: embeddings.columns,
    rows,
    heads,
  };
}
