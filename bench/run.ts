/**
 * Measures and writes bench/results/: `npm run bench` on the CPU, `npm run bench:gpu` on a GPU.
 * usage: node dist/bench/run.js [--gpu] [--quick] [--seconds N] [--out DIR] [--no-plots]
 *        node dist/bench/run.js --gpu --matrix [--format F,...] [--seconds N] [--out DIR] [--no-plots]
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { positiveNumber } from '../examples/options';
import type { HeadFormat } from '../src/kernel_names';
import { packageRoot } from '../src/native/package_root';
import { judge } from './bars';
import { defaultOpTimes, measureCpu } from './cpu';
import { defaultGpuPrograms, measureGpu } from './gpu';
import { commit, cpuName, gpuName, slug } from './machine';
import { measureMatrix, otherFormats } from './matrix';
import { judgeMatrix } from './matrix_bars';
import { drawFile } from './plot';
import { matrixReport, table, verdicts } from './report';
import { readResults, writeResults, type Row } from './results';
import { FORMATS } from './trials';

interface Options {
  gpu: boolean;
  quick: boolean;
  matrix: boolean;
  format?: HeadFormat[];
  seconds?: number;
  out: string;
  plots: boolean;
}

const SECONDS = 230;
const MATRIX_SECONDS = 480;

async function main(): Promise<void> {
  const options = new Command('bench')
    .description('Measures lmHeadTopK and its peers, prints a table and the bars, writes bench/results/.')
    .option(
      '--gpu',
      "the kernels, torch, FlashSampling (FLASHSAMPLING names its checkout) and the op's host time",
      false,
    )
    .option('--quick', 'fewer shapes, for a first look', false)
    .option('--matrix', 'the kernels and torch over many shapes, k and orders of scores, with --gpu', false)
    .option('--format <list>', 'formats of --matrix, such as bfloat16,binary; without it, all', formats)
    .option('--seconds <n>', `longest time for everything (${SECONDS}; of --matrix ${MATRIX_SECONDS})`, positiveNumber)
    .option('--out <dir>', 'folder for the results', join(packageRoot(), 'bench', 'results'))
    .option('--no-plots', 'do not draw the results')
    .allowExcessArguments(false)
    .parse()
    .opts<Options>();
  const { gpu, quick, out } = options;
  if (options.matrix !== (gpu && options.matrix && !quick))
    throw new Error('--matrix goes with --gpu, without --quick.');
  if (options.format !== undefined && !options.matrix) throw new Error('--format goes with --matrix.');
  const log = (line: string) => console.error(line);

  const name = gpu ? gpuName() : cpuName();
  if (name === undefined) throw new Error('nvidia-smi finds no GPU; without --gpu the CPU is measured.');
  if (options.matrix) return matrix(name, options, log);
  const seconds = options.seconds ?? SECONDS;
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

function formats(list: string): HeadFormat[] {
  const names = list.split(',');
  const unknown = names.find((name) => !(FORMATS as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`There is no format ${unknown}, but ${FORMATS.join(', ')}.`);
  return FORMATS.filter((format) => names.includes(format));
}

async function matrix(gpu: string, options: Options, log: (line: string) => void): Promise<void> {
  const { format = [...FORMATS], seconds = MATRIX_SECONDS, out } = options;
  const name = `${slug(gpu)}-matrix`;
  const path = join(out, `${name}.json`);
  const head = { gpu, date: new Date().toISOString(), commit: commit() };
  const kept = otherFormats(existsSync(path) ? readResults(path) : undefined, head, format);
  const save = (rows: Row[]) => writeResults(out, name, { ...head, rows: [...kept, ...rows] });
  const { rows, problems, failed } = await measureMatrix({
    formats: format,
    seconds,
    programs: defaultGpuPrograms(),
    log,
    save,
  });
  if (rows.length === 0) throw new Error(['Nothing was measured.', ...problems].join('\n'));
  const all = [...kept, ...rows];
  console.log(`${gpu}, the matrix; times in microseconds, memory in bytes\n\n${matrixReport(judgeMatrix(all))}`);
  for (const problem of problems) console.log(problem);
  const missing = FORMATS.filter((one) => !all.some((row) => row.format === one));
  if (missing.length > 0) console.log(`The file is a part of the matrix, without ${missing.join(', ')}.`);
  console.log(`Written: ${save(rows)}`);
  if (options.plots) await draw(path);
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
