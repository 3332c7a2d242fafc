/** A run on a GPU: the kernels, their peers, and the tfjs op, one after the other, for they share the GPU. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { HeadFormat } from '../src/kernel_names';
import { packageRoot } from '../src/native/package_root';
import { runChild, type ChildRun } from './child';
import type { OpRequest, OpTime } from './op_times';
import { sameShape, sameTrial, type Peer, type Row } from './results';
import { argmaxTrials, flashSamplingTrials, gpuOpTrials, kernelTrials, SHARD, type Trial } from './trials';

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
type PeerTime = { peer: Peer; op?: Row['op']; us: number } & Omit<Trial, 'rows' | 'k'> & Partial<Trial>;

export async function measureGpu({ quick, seconds, programs, log }: GpuRun): Promise<Measured> {
  const end = Date.now() + seconds * 1000;
  const problems: string[] = [];
  let failed = false;
  /** Runs one of them within `most` seconds and what is left of the run's time. */
  const stage = async (name: string, most: number, own: boolean, start: Omit<ChildRun, 'name' | 'seconds'>) => {
    const began = Date.now();
    log(`${name} ...`);
    const output = await runChild({ ...start, name, seconds: Math.min(most, (end - began) / 1000) });
    if (output.problem !== undefined) {
      problems.push(output.problem);
      failed ||= own;
    }
    log(`  ${output.objects.length} results in ${Math.round((Date.now() - began) / 1000)} s`);
    return output.objects;
  };
  const peer = (name: string, file: string, most: number, trials: Trial[], env: Record<string, string> = {}) => {
    const args = [join(packageRoot(), 'bench', 'peers', file)];
    const own = { PYTHONDONTWRITEBYTECODE: '1', ...env };
    return stage(name, most, false, { program: programs.python, args, env: own, input: { trials } });
  };
  const op = (name: string, most: number, onlyTfjs: boolean, tf32: string | undefined) =>
    stage(name, most, true, {
      program: process.execPath,
      args: programs.opTimes,
      env: { TF_CPP_MIN_LOG_LEVEL: '2', NVIDIA_TF32_OVERRIDE: tf32 },
      input: { trials: gpuOpTrials(quick), gpu: true, onlyTfjs } satisfies OpRequest,
    });

  let kernels: Row[] = [];
  if (existsSync(programs.cudaTest)) {
    const printed = await stage('cuda_test', 100, true, { program: programs.cudaTest, args: ['--bench', '--json'] });
    kernels = printed.flatMap(kernelRow);
  } else {
    problems.push(`The kernels were left out: ${programs.cudaTest} is not there; 'npm run setup' builds it.`);
    failed = true;
  }

  const torchTrials = [...argmaxTrials(), ...kernelTrials(quick)];
  const peerTimes = (await peer('torch', 'torch_peer.py', 60, torchTrials)) as unknown as PeerTime[];
  const opTimes = (await op('tfjs op', 60, false, '0')) as unknown as OpTime[];
  const tf32Times = quick ? [] : ((await op('tfjs with TF32', 40, true, undefined)) as unknown as OpTime[]);
  // The last, for its kernels tune themselves for about a minute; it prints a result as soon as it has one.
  if (quick) {
    problems.push('FlashSampling was left out: --quick leaves no time for its tuning.');
  } else if (programs.flashSampling === undefined) {
    problems.push('FlashSampling was left out: FLASHSAMPLING does not name a checkout of its repository.');
  } else {
    const env = { FLASHSAMPLING: programs.flashSampling };
    const times = await peer('FlashSampling', 'flashsampling_peer.py', Infinity, flashSamplingTrials(), env);
    peerTimes.push(...(times as unknown as PeerTime[]));
  }

  for (const row of kernels) addPeers(row, peerTimes, opTimes);
  return { rows: [...kernels, ...opRows(opTimes, tf32Times)], problems, failed };
}

const KERNEL_OPS: unknown[] = [
  'lm_head_topk',
  'lm_head_topk_launch',
  'vocab_parallel_argmax',
  'argmax',
] satisfies Row['op'][];

function kernelRow(printed: Record<string, unknown>): Row[] {
  // An argmax has logits and no hidden.
  const { op, format, rows, vocab, hidden = SHARD.hidden, k = 1, bias = false, logSumExp = false, us } = printed;
  const { floorUs = null, scratchBytes = null } = printed;
  if (!KERNEL_OPS.includes(op)) return [];
  const measure = op === 'lm_head_topk_launch' ? { measure: 'host' } : {};
  const row = { op, format, rows, vocab, hidden, k, bias, logSumExp, ...measure, us, floorUs, scratchBytes, peers: {} };
  return [row as unknown as Row];
}

/** Puts the others' times beside a kernel's; they have neither bias nor logSumExp. */
function addPeers(row: Row, peerTimes: PeerTime[], opTimes: OpTime[]): void {
  const reads = peerTimes.filter(
    ({ peer, format, ...shape }) => peer === 'torchRead' && format === row.format && sameShape(shape, row),
  );
  // Whoever reads faster sets the floor.
  for (const { us } of reads) {
    row.peers.torchRead = us;
    row.floorUs = Math.min(row.floorUs ?? Infinity, us);
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
