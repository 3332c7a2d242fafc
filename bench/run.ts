/**
 * Measures and writes bench/results/: `npm run bench` on the CPU, `npm run bench:gpu` on a GPU.
 * usage: node dist/bench/run.js [--gpu] [--quick] [--seconds N] [--out DIR] [--no-plots]
 */
import { join } from 'node:path';
import { Command } from 'commander';
import { positiveNumber } from '../examples/options';
import { packageRoot } from '../src/native/package_root';
import { judge } from './bars';
import { defaultOpTimes, measureCpu } from './cpu';
import { defaultGpuPrograms, measureGpu } from './gpu';
import { commit, cpuName, gpuName, slug } from './machine';
import { drawFile } from './plot';
import { table, verdicts } from './report';
import { writeResults } from './results';

interface Options {
  gpu: boolean;
  quick: boolean;
  seconds: number;
  out: string;
  plots: boolean;
}

async function main(): Promise<void> {
  const options = new Command('bench')
    .description('Measures lmHeadTopK and its peers, prints a table and the bars, writes bench/results/.')
    .option(
      '--gpu',
      "the kernels, torch, FlashSampling (FLASHSAMPLING names its checkout) and the op's host time",
      false,
    )
    .option('--quick', 'fewer shapes, for a first look', false)
    .option('--seconds <n>', 'longest time for everything', positiveNumber, 230)
    .option('--out <dir>', 'folder for the results', join(packageRoot(), 'bench', 'results'))
    .option('--no-plots', 'do not draw the results')
    .allowExcessArguments(false)
    .parse()
    .opts<Options>();
  const { gpu, quick, seconds, out } = options;
  const log = (line: string) => console.error(line);

  const name = gpu ? gpuName() : cpuName();
  if (name === undefined) throw new Error('nvidia-smi finds no GPU; without --gpu the CPU is measured.');
  const { rows, problems, failed } = gpu
    ? await measureGpu({ quick, seconds, programs: defaultGpuPrograms(), log })
    : await measureCpu({ quick, seconds, opTimes: defaultOpTimes, log });
  if (rows.length === 0) throw new Error(['Nothing was measured.', ...problems].join('\n'));

  const results = { gpu: name, date: new Date().toISOString(), commit: commit(), rows };
  console.log(`${name}, medians in microseconds\n\n${table(results)}\n`);
  console.log(verdicts(judge(rows, gpu ? 'gpu' : 'cpu')));
  for (const problem of problems) console.log(problem);
  // A quick run is no result to keep.
  const file = writeResults(out, (gpu ? slug(name) : 'cpu') + (quick ? '-quick' : ''), results);
  console.log(`Written: ${file}`);
  if (options.plots && !quick) await draw(file);
  if (failed) process.exitCode = 1;
}

async function draw(file: string): Promise<void> {
  try {
    for (const plot of await drawFile(file)) console.log(`Drawn: ${plot}`);
  } catch (error) {
    const reason = (error as Error).message.split('\n')[0];
    console.log(`${file} was not drawn (${reason}); 'npm run bench:plot' can do it later.`);
  }
}

main().catch((error: unknown) => {
  console.error((error as Error).message);
  process.exitCode = 1;
});
