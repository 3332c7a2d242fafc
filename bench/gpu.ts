/** A run on a GPU: the kernels, their peers, and the tfjs op, one after the other, for they share the GPU. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { HeadFormat } from '../src/kernel_names';
import { packageRoot } from '../src/native/package_root';
import type { OpRequest, OpTime } from './op_times';
import { sameShape, sameTrial, type Peer, type Row } from './results';
import { peerStart, Stages } from './stages';
import { argmaxTrials, flashSamplingTrials, gpuOpTrials, kernelTrials, SHARD, type Data, type Trial } from './trials';

/** The programs that a run starts; tests put others in their place. */
export interface GpuPrograms {
  /** test/cuda's program. */
  cudaTest: string;
  python: string;
  /** Arguments for Node.js. */
  opTimes: string[];
  /** A checkout of FlashSampling; without it that peer is left out. */
  flashSampling?: string;
}

export interface GpuRun {
  quick: boolean;
  /** Longest time for all of it. */
  seconds: number;
  programs: GpuPrograms;
  log: (line: string) => void;
}

export interface Measured {
  rows: Row[];
  /** What is missing and why, a sentence each. */
  problems: string[];
  /** Whether this package's own part is not complete; a peer may be missing. */
  failed: boolean;
}

export function defaultGpuPrograms(): GpuPrograms {
  return {
    cudaTest: join(packageRoot(), 'build', 'native', 'cuda_test'),
    python: 'python3',
    opTimes: [join(__dirname, 'op_times.js')],
    flashSampling: process.env['FLASHSAMPLING'] || undefined,
  };
}

/** A peer's time, as bench/peers/ print it; a read of the weights has neither rows nor k. `op` is 'lm_head_topk' if left out. */
export type PeerTime = { peer: Peer; op?: Row['op']; us: number } & Omit<Trial, 'rows' | 'k'> & Partial<Trial>;

export async function measureGpu({ quick, seconds, programs, log }: GpuRun): Promise<Measured> {
  const stages = new Stages(seconds, log);
  const peer = (name: string, file: string, most: number, trials: Trial[], env: Record<string, string> = {}) =>
    stages.run({ name, most, own: false }, peerStart(programs.python, file, trials, env));
  const op = (name: string, most: number, onlyTfjs: boolean, tf32: string | undefined) =>
    stages.run(
      { name, most, own: true },
      {
        program: process.execPath,
        args: programs.opTimes,
        env: { TF_CPP_MIN_LOG_LEVEL: '2', NVIDIA_TF32_OVERRIDE: tf32 },
        input: { trials: gpuOpTrials(quick), gpu: true, onlyTfjs } satisfies OpRequest,
      },
    );

  const kernels = await measureKernels(stages, programs.cudaTest, { most: 100, args: ['--bench', '--json'] });
  const torchTrials = [...argmaxTrials(), ...kernelTrials(quick)];
  const peerTimes = (await peer('torch', 'torch_peer.py', 60, torchTrials)) as unknown as PeerTime[];
  const opTimes = (await op('tfjs op', 60, false, '0')) as unknown as OpTime[];
  const tf32Times = quick ? [] : ((await op('tfjs with TF32', 40, true, undefined)) as unknown as OpTime[]);
  // The last, for its kernels tune themselves for about a minute; it prints a result as soon as it has one.
  if (quick) {
    stages.miss('FlashSampling was left out: --quick leaves no time for its tuning.', false);
  } else if (programs.flashSampling === undefined) {
    stages.miss('FlashSampling was left out: FLASHSAMPLING does not name a checkout of its repository.', false);
  } else {
    const env = { FLASHSAMPLING: programs.flashSampling };
    const times = await peer('FlashSampling', 'flashsampling_peer.py', Infinity, flashSamplingTrials(), env);
    peerTimes.push(...(times as unknown as PeerTime[]));
  }

  for (const row of kernels) addPeers(row, peerTimes, opTimes);
  const { problems, failed } = stages;
  return { rows: [...kernels, ...opRows(opTimes, tf32Times)], problems, failed };
}

/** Rows of cuda_test, without peers. What it found to be wrong has no row. */
export async function measureKernels(
  stages: Stages,
  cudaTest: string,
  { most, args, name = 'cuda_test' }: { most: number; args: string[]; name?: string },
): Promise<Row[]> {
  if (!existsSync(cudaTest)) {
    stages.miss(`The kernels were left out: ${cudaTest} is not there; 'npm run setup' builds it.`, true);
    return [];
  }
  const printed = await stages.run({ name, most, own: true }, { program: cudaTest, args });
  const wrong = printed.filter(({ failed }) => failed !== undefined);
  for (const { format, vocab, hidden, rows, k, data = 'random', failed } of wrong as unknown as FailedCell[]) {
    const text = `${format}, V = ${vocab}, H = ${hidden}, ${rows} rows, k = ${k}, ${data}: ${failed}`;
    stages.miss(`Not right, so not timed: ${text}.`, true);
  }
  return printed.flatMap(kernelRow);
}

type FailedCell = Trial & { data?: Data; failed: string };

const KERNEL_OPS: unknown[] = [
  'lm_head_topk',
  'lm_head_topk_launch',
  'vocab_parallel_argmax',
  'argmax',
] satisfies Row['op'][];

function kernelRow(printed: Record<string, unknown>): Row[] {
  // An argmax has logits and no hidden.
  const { op, format, rows, vocab, hidden = SHARD.hidden, k = 1, bias = false, logSumExp = false, us } = printed;
  const { floorUs = null, scratchBytes = null, data, launches } = printed;
  if (!KERNEL_OPS.includes(op) || us === undefined) return [];
  const some = {
    ...(data !== undefined && { data }),
    ...(op === 'lm_head_topk_launch' && { measure: 'host' }),
  };
  const cost = { us, floorUs, scratchBytes, ...(launches !== undefined && { launches }) };
  const row = { op, format, rows, vocab, hidden, k, bias, logSumExp, ...some, ...cost, peers: {} };
  return [row as unknown as Row];
}

/** Puts the others' times beside a kernel's; they have neither bias nor logSumExp. */
function addPeers(row: Row, peerTimes: PeerTime[], opTimes: OpTime[]): void {
  if (row.op === 'lm_head_topk') {
    const sameWeights = peerTimes.filter(
      ({ op = 'lm_head_topk', format, ...shape }) => op === row.op && format === row.format && sameShape(shape, row),
    );
    for (const { us } of sameWeights.filter(({ peer }) => peer === 'torchRead')) row.peers.torchRead = us;
    // Whoever reads faster, alone or with all that follows, sets the floor.
    for (const { us } of sameWeights) row.floorUs = Math.min(row.floorUs ?? Infinity, us);
  }
  if (row.bias || row.logSumExp) return;
  const timesOf = (format: HeadFormat) =>
    peerTimes.filter(
      ({ op = 'lm_head_topk', ...time }) =>
        op === row.op && time.rows !== undefined && sameTrial(time as Trial, { ...row, format }),
    );
  for (const { peer, us } of timesOf(row.format)) row.peers[peer] = us;
  if (row.op !== 'lm_head_topk') return;
  if (row.format === 'binary') {
    for (const { us } of timesOf('bfloat16').filter(({ peer }) => peer === 'torch')) row.peers.torchBfloat16 = us;
  }
  if (row.format === 'float32') {
    const time = opTimes.find(({ measure, trial }) => measure === 'stream' && sameTrial(trial, row));
    if (time?.tfjs !== undefined) row.peers.tfjs = time.tfjs;
  }
}

/** Rows of 'lm_head_topk_op'; `tf32Times` are of tfjs alone, in a process that allows TF32, one for each shape and row count. */
export function opRows(times: OpTime[], tf32Times: OpTime[]): Row[] {
  return times.flatMap(({ trial, measure, us, tfjs, tfjsNeg }): Row[] => {
    if (us === undefined) return [];
    const tf32 = tf32Times.find(
      (other) => other.measure === measure && sameTrial({ ...other.trial, format: trial.format }, trial),
    )?.tfjs;
    const peers = {
      ...(tfjs !== undefined && { tfjs }),
      ...(tf32 !== undefined && { tfjsTf32: tf32 }),
      ...(tfjsNeg !== undefined && { tfjsNeg }),
    };
    const flags = { bias: false, logSumExp: false };
    return [{ op: 'lm_head_topk_op', ...trial, ...flags, measure, us, floorUs: null, scratchBytes: null, peers }];
  });
}
