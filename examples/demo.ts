/**
 * Trains a small GPT on a book, then lets it write: once with its own head and argMax, once with `lmHeadTopK`.
 * `npm run demo -- --help` lists the options.
 */
import './demo/environment';
import { Command } from 'commander';
import type { DemoOptions, DemoResult } from './demo/run';
import { positiveInteger, positiveNumber } from './options';

async function main(): Promise<void> {
  const command = new Command('demo')
    .description('Trains a small GPT on a book, then generates text with its own head and with lmHeadTopK.')
    .option('--seconds <n>', 'longest time to train', positiveNumber, 60)
    .option('--steps <n>', 'most training steps; a number that fits into the time makes runs alike', positiveInteger)
    .option('--tokens <n>', 'tokens to generate', positiveInteger, 200)
    .option('--json', 'print one JSON object and nothing else on stdout', false)
    .allowExcessArguments(false)
    .parse();
  const { json, ...options } = command.opts<Omit<DemoOptions, 'steps'> & { steps?: number; json: boolean }>();

  // Loaded only now, so that --help and wrong options do not wait for TensorFlow.
  const { runDemo } = await import('./demo/run.js');
  const log = json ? (line: string) => process.stderr.write(line + '\n') : (line: string) => console.log(line);
  const result = await runDemo({ steps: Infinity, ...options }, log);
  console.log(json ? JSON.stringify(result) : report(result));
}

/** What a reader wants to know of `result`, as text. */
function report(result: DemoResult): string {
  const row = (name: string, own: string, fused: string) => name.padEnd(34) + own.padStart(16) + fused.padStart(14);
  const ms = (value: number) => `${value.toFixed(3)} ms`;
  const difference = result.firstDifference;
  const verdict = difference
    ? `The tokens differ from number ${difference.position} on, where the two best scores are ${difference.topGap} apart.`
    : `All ${result.tokens} tokens are the same with both heads.`;
  return `
${result.prompt}[${result.text}]

${verdict}
${row('Medians after a warm-up', 'own head, argMax', 'lmHeadTopK')}
${row('  one token (trunk and head)', ms(result.stockMsPerToken), ms(result.fusedMsPerToken))}
${row('  the head alone, for one vector', ms(result.stockHeadMs), ms(result.fusedHeadMs))}
Within the model its own head scores every position of the context; alone, it is given the last one only.`;
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
