import * as tf from '@tensorflow/tfjs-node-gpu';
import { deviceName } from './device';
import { createHeads, generate, type Heads } from './generate';
import { createModel } from './model';
import { readText } from './text';
import { Tokenizer } from './tokenizer';
import { train, type TrainLimits } from './train';

const VOCAB_SIZE = 1024;
const PROMPT = 'Alice was beginning to';

export interface DemoOptions extends TrainLimits {
  /** Tokens to generate. */
  tokens: number;
}

export interface DemoResult {
  backend: string;
  /** 'cpu', or the name of the GPU. */
  device: string;
  tokensEqual: boolean;
  /** Number of tokens that were generated, twice. */
  tokens: number;
  /** Median time of a token with the model's own head. */
  stockMsPerToken: number;
  /** Median time of a token with `lmHeadTopK`. */
  fusedMsPerToken: number;
  /** Median time of the head's step alone, for one hidden vector. */
  stockHeadMs: number;
  fusedHeadMs: number;
  vocabSize: number;
  trainSteps: number;
  loss: number;
  prompt: string;
  text: string;
  /** Only where the tokens differ: the first place, and how far apart the two best scores are there. */
  firstDifference?: { position: number; stockId: number; fusedId: number; topGap: number };
}

/** Trains a small GPT and generates text with its own head and with `lmHeadTopK`; `log` gets lines for a reader. */
export async function runDemo(options: DemoOptions, log: (line: string) => void): Promise<DemoResult> {
  const backend = tf.getBackend();
  const device = deviceName();
  log(`Backend ${backend}, device ${device}.`);
  if (device !== 'cpu' && process.env['NVIDIA_TF32_OVERRIDE'] === '0') {
    log('TF32 is off: with it the own head of the model would round its factors to 10 bits, and not be exact.');
  }

  const text = readText();
  const tokenizer = Tokenizer.learn(text, VOCAB_SIZE);
  const ids = tokenizer.encode(text);
  const vocabSize = tokenizer.vocabSize;
  log(`Text: ${text.length} characters, ${ids.length} tokens of a vocabulary of ${vocabSize}.`);

  log(`Training for at most ${options.seconds} s …`);
  const gpt = createModel(vocabSize);
  let loss = NaN;
  const trainSteps = await train(gpt, ids, vocabSize, options, (step, stepLoss) => {
    loss = stepLoss;
    if (step === 1 || step % 100 === 0) log(`  step ${step}: loss ${loss.toFixed(2)}`);
  });
  log(`Trained ${trainSteps} steps, loss ${loss.toFixed(2)}.`);

  log(`Generating ${options.tokens} tokens, greedily, twice …`);
  const heads = createHeads(gpt);
  try {
    const prompt = tokenizer.encode(PROMPT);
    const stock = generate(heads.stock, prompt, options.tokens);
    const fused = generate(heads.fused, prompt, options.tokens);
    const firstDifference = findDifference(heads, prompt, stock.ids, fused.ids);
    return {
      backend,
      device,
      tokensEqual: firstDifference === undefined,
      tokens: options.tokens,
      stockMsPerToken: stock.msPerToken,
      fusedMsPerToken: fused.msPerToken,
      ...heads.timeHeads([...prompt, ...stock.ids]),
      vocabSize,
      trainSteps,
      loss,
      prompt: PROMPT,
      text: tokenizer.decode(fused.ids),
      firstDifference,
    };
  } finally {
    heads.dispose();
  }
}

function findDifference(
  heads: Heads,
  prompt: number[],
  stock: number[],
  fused: number[],
): DemoResult['firstDifference'] {
  const position = stock.findIndex((id, i) => id !== fused[i]);
  if (position < 0) return undefined;
  const topGap = heads.topGap([...prompt, ...stock.slice(0, position)]);
  return { position, stockId: stock[position], fusedId: fused[position], topGap };
}
