/** Starts test/ranks/program.ts in several processes, as torchrun would. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../examples/tensor_parallel/free_port';
import type { Task } from './ranks/program';
import type { RankReport } from './ranks/report';

const program = join(__dirname, '..', 'dist', 'test', 'ranks', 'program.js');

export interface RankRun {
  worldSize: number;
  timeoutMs: number;
  /** How many of them to start; default all. */
  started?: number;
  /** Environment of each rank beside what torchrun sets; by default a CPU. */
  env?: (rank: number) => Record<string, string>;
}

/** How a process ended, and what it printed. */
export interface RankEnd {
  code: number | null;
  signal: string | null;
  report: Partial<RankReport>;
  /** The end of its error output, for a reader of a failed test. */
  stderr: string;
}

/** Fewer steps than on GPUs: a step is some wake-ups of four processes, on what may be two cores. */
export const CPU_STEPS = 3000;

export const cpu = () => ({
  STEPS: String(CPU_STEPS),
  CUDA_VISIBLE_DEVICES: '-1',
  TF_NUM_INTRAOP_THREADS: '1',
  TF_NUM_INTEROP_THREADS: '1',
});

export async function startRanks(task: Task, run: RankRun): Promise<RankEnd[]> {
  if (!existsSync(program)) throw new Error(`${program} is missing: run npm run build first.`);
  const { worldSize, timeoutMs, started = worldSize, env = cpu } = run;
  const port = await freePort();
  return Promise.all(
    Array.from({ length: started }, (_, rank) =>
      startRank(task, {
        RANK: String(rank),
        WORLD_SIZE: String(worldSize),
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: String(port),
        TIMEOUT_MS: String(timeoutMs),
        ...env(rank),
      }),
    ),
  );
}

function startRank(task: Task, env: Record<string, string>): Promise<RankEnd> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, task], { env: { ...process.env, ...env } });
    let [stdout, stderr] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr = (stderr + text).slice(-2000)));
    child.on('error', reject);
    child.on('close', (code, signal) => {
      const line = stdout.split('\n').find((text) => text.startsWith('{'));
      resolve({ code, signal, report: line === undefined ? {} : (JSON.parse(line) as RankReport), stderr });
    });
  });
}
