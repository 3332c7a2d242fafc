/**
 * What it costs to keep a head in fewer bits: takes the vocabulary matrix of a trained model, and compares the best tokens of
 * the head in float32 with those of the same head in bfloat16, and binarized.
 * `npm run example:compare-heads -- --help` lists the options.
 */
import './demo/environment';
import { Command } from 'commander';
import type { Comparison } from './compare_heads/run';
import type { HeadResult } from './compare_heads/compare';
import { positiveInteger } from './options';
import { sentence } from '../src/setup/errors';

async function main(): Promise<void> {
  const command = new Command('compare-heads')
    .description('Compares the best tokens of a trained head in float32 with those of the same head in fewer bits.')
    .option('--rows <n>', 'hidden vectors to compare', positiveInteger, 1000)
    .option('--json', 'print one JSON object and nothing else on stdout', false)
    .allowExcessArguments(false)
    .parse();
  const { rows, json } = command.opts<{ rows: number; json: boolean }>();

  // Loaded only now, so that --help and wrong options do not wait for TensorFlow.
  const { runComparison } = await import('./compare_heads/run.js');
  const result = await runComparison(rows, (line) => process.stderr.write(line + '\n'));
  console.log(json ? JSON.stringify(result) : report(result));
}

function report({ model, vocabSize, hiddenSize, rows, heads }: Comparison): string {
  const line = (cells: string[]) =>
    cells[0].padEnd(24) +
    cells
      .slice(1)
      .map((cell) => cell.padStart(10))
      .join('');
  const percent = (part: number) => `${(100 * part).toFixed(1)} %`;
  const ofHead = ({ head, bytes, overlap }: HeadResult) =>
    line([
      head,
      `${(bytes / 2 ** 20).toFixed(1)} MiB`,
      percent(overlap[1]),
      percent(overlap[10]),
      percent(overlap[50]),
    ]);
  return `
${model}: ${vocabSize} tokens, hidden size ${hiddenSize}; the mean of ${rows} vectors.
How many of the best 1, 10, 50 tokens of the float32 head are among the best 1, 10, 50 of each head:

${line(['head', 'memory', 'best 1', 'best 10', 'best 50'])}
${heads.map(ofHead).join('\n')}`;
}

main().catch((error: unknown) => {
  console.error(sentence(error));
  process.exitCode = 1;
});
