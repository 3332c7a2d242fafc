/**
 * Measures a step that several GPUs take together, beside one GPU alone, and writes bench/results/<gpu>-x<N>.json.
 * usage: node dist/bench/gpus.js [--processes N] [--seconds N] [--out DIR]
 */
import { join } from 'node:path';
import { Command } from 'commander';
import { positiveInteger } from '../examples/options';
import { freePort } from '../examples/tensor_parallel/free_port';
import { packageRoot } from '../src/native/package_root';
import { judge } from './bars';
import { runChild } from './child';
import type { Measured } from './gpu';
import type { StepTime } from './gpus_rank';
import { commit, gpuNames, slug } from './machine';
import { table, verdicts } from './report';
import { writeResults, type Row } from './results';
import { STEP_TRIALS } from './trials';

export interface GpusRun {
  processes: number;
  seconds: number;
  /** Arguments for Node.js; tests put others in their place. */
  rankProgram?: string[];
}

/** The ranks together, and then one process alone. A time is that of the slowest rank. */
export async function measureGpus({ processes, seconds, rankProgram }: GpusRun): Promise<Measured> {
  const problems: string[] = [];
  const run = async (worldSize: number): Promise<StepTime[]> => {
    const port = String(await freePort());
    const ranks = Array.from({ length: worldSize }, (_, rank) =>
      runChild({
        program: process.execPath,
        args: rankProgram ?? [join(__dirname, 'gpus_rank.js')],
        name: worldSize === 1 ? 'one GPU' : `rank ${rank}`,
        seconds: seconds / 2,
        env: {
          RANK: String(rank),
          WORLD_SIZE: String(worldSize),
          MASTER_ADDR: '127.0.0.1',
          MASTER_PORT: port,
          CUDA_VISIBLE_DEVICES: process.env['CUDA_VISIBLE_DEVICES']?.split(',')[rank] ?? String(rank),
          TF_CPP_MIN_LOG_LEVEL: '2',
        },
      }),
    );
    const outputs = await Promise.all(ranks);
    problems.push(...outputs.flatMap(({ problem }) => problem ?? []));
    return outputs.flatMap(({ objects }) => objects as unknown as StepTime[]);
  };

  const together = await run(processes);
  const alone = await run(1);
  const rows = together.flatMap(({ op, measure }, i): Row[] => {
    const same = (time: StepTime) => time.op === op && time.measure === measure;
    if (together.findIndex(same) !== i) return []; // of another rank
    const ranks = together.filter(same);
    const whole = alone.find(same);
    if (ranks.length < processes) return []; // one of them has said why
    if ([...ranks, ...(whole === undefined ? [] : [whole])].some(({ token }) => token !== ranks[0].token)) {
      // A wrong result has no speed.
      problems.push(`${op} does not give the same token in every rank and on one GPU.`);
      return [];
    }
    const us = Math.max(...ranks.map((time) => time.us));
    const peers = whole === undefined ? {} : { oneGpu: whole.us };
    const trial = STEP_TRIALS[op];
    return [{ op, ...trial, bias: false, logSumExp: false, measure, us, floorUs: null, scratchBytes: null, peers }];
  });
  return { rows, problems, failed: problems.length > 0 };
}

interface Options {
  processes?: number;
  seconds: number;
  out: string;
}

async function main(): Promise<void> {
  const options = new Command('bench:gpus')
    .description('Measures a step of several GPUs, one process each, beside one GPU; prints a table and the bars.')
    .option('--processes <n>', 'how many GPUs to use; default all', positiveInteger)
    .option('--seconds <n>', 'longest time for everything', positiveInteger, 230)
    .option('--out <dir>', 'folder for the results', join(packageRoot(), 'bench', 'results'))
    .allowExcessArguments(false)
    .parse()
    .opts<Options>();
  const names = gpuNames();
  const { processes = names.length, seconds, out } = options;
  if (processes < 2 || processes > names.length) {
    throw new Error(`Two processes or more, each with a GPU, are needed; this one sees ${names.length} GPUs.`);
  }
  const { rows, problems, failed } = await measureGpus({ processes, seconds });
  if (rows.length === 0) throw new Error(['Nothing was measured.', ...problems].join('\n'));

  const gpu = `${processes} x ${names[0]}`;
  const results = { gpu, date: new Date().toISOString(), commit: commit(), rows };
  console.log(`${gpu}, medians in microseconds\n\n${table(results)}\n`);
  console.log(verdicts(judge(rows, 'gpus')));
  for (const problem of problems) console.log(problem);
  console.log(`Written: ${writeResults(out, `${slug(names[0])}-x${processes}`, results)}`);
  if (failed) process.exitCode = 1;
}

if (require.main === module) {
  main().catch((error: unknown) => {
    console.error((error as Error).message);
    process.exitCode = 1;
  });
}
