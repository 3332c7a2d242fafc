/** The form of `bench/results/<gpu>.json`. Programs write those files, nobody else. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ArgmaxTrial, Data, StepOp, Trial } from './trials';

/**
 * How an op's time was taken:
 * - 'host': calls in a loop, results not read, divided by the number of calls
 * - 'stream': the same, until the last result is there
 * - 'dataSync': one call and reading its values and indices
 * - 'sync': the same with the option `host`, which brings them home with the call
 * - 'first': the first call of a process, and reading its result
 */
export type Measure = 'host' | 'stream' | 'dataSync' | 'sync' | 'first';

export interface Row extends Trial {
  /**
   * 'lm_head_topk' is the kernel: a CUDA launcher alone; on a CPU, the op with its result read. 'lm_head_topk_op' is the
   * tfjs op, 'lm_head_topk_launch' the CUDA launcher's share of that op's host time. 'vocab_parallel_argmax' is what a rank
   * does beside communicating, the scan of its logits and the pick; 'argmax' the one kernel for logits that are not cut.
   * With several GPUs, the time of the slowest rank: 'vocab_parallel_step' is vocabParallelArgmax, 'decode_step' lmHeadTopK
   * with k = 1, each with a group.
   */
  op: 'lm_head_topk' | 'lm_head_topk_op' | 'lm_head_topk_launch' | ArgmaxTrial['op'] | StepOp;
  bias: boolean;
  logSumExp: boolean;
  /** The order of the scores, of the matrix's rows. */
  data?: Data;
  /** Of the rows of an op or a launch, and on a CPU of every row. */
  measure?: Measure;
  /** Median, in microseconds. */
  us: number;
  /**
   * The fastest of several reads of the same weights, or logits, in the same run; never more than a peer that reads these
   * weights needs for all it does. null where none was measured.
   */
  floorUs: number | null;
  /** Extra device memory during the call; null where there is no launcher to say it. */
  scratchBytes: number | null;
  /** Kernels, memsets and copies of a call; of kernels' rows. */
  launches?: number;
  /**
   * Medians of others at the same shape, in microseconds:
   * - torch: cuBLAS product, cast to float32, torch.topk, in a CUDA graph; beside 'vocab_parallel_argmax' the same reduction
   *   in separate kernels, beside 'argmax' torch.argmax
   * - torchBfloat16: the same on a bfloat16 head, beside a binary one
   * - torchRead: torch.sum of the head's bytes
   * - flashsampling: its fused top-k kernel and merge; at k = 1 its fused greedy kernel
   * - tfjs: tf.topk(tf.matMul(...)) in float32; beside a kernel's time it is the time on the stream
   * - tfjsTf32: the same with TF32 allowed, which rounds both factors
   * - tfjsNeg: tf.neg of hidden, beside the host time of a tiny head: what any call of tfjs costs there
   * - oneGpu: the same call in one process with the whole vocabulary on one GPU
   */
  peers: Partial<Record<Peer, number>>;
}

export type Peer =
  'torch' | 'torchBfloat16' | 'torchRead' | 'flashsampling' | 'tfjs' | 'tfjsTf32' | 'tfjsNeg' | 'oneGpu';

export interface Results {
  /** Name of the GPU, or of the CPU. */
  gpu: string;
  /** ISO 8601. */
  date: string;
  /** Of the measured program. */
  commit: string;
  rows: Row[];
}

export function sameTrial(a: Trial, b: Trial): boolean {
  return a.format === b.format && a.rows === b.rows && a.k === b.k && sameShape(a, b);
}

export function sameShape(a: { vocab: number; hidden: number }, b: { vocab: number; hidden: number }): boolean {
  return a.vocab === b.vocab && a.hidden === b.hidden;
}

export function readResults(path: string): Results {
  return JSON.parse(readFileSync(path, 'utf8')) as Results;
}

/** Writes one row a line, which makes for readable differences; returns the file's path. */
export function writeResults(folder: string, name: string, { rows, ...head }: Results): string {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.json`);
  const fields = Object.entries(head).map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`);
  const lines = rows.map((row) => `    ${JSON.stringify(rounded(row))}`).join(',\n');
  writeFileSync(path, `{\n${fields.join('')}  "rows": [\n${lines}\n  ]\n}\n`);
  return path;
}

/** Times to a hundredth of a microsecond: more would be noise. */
function rounded(row: Row): Row {
  const round = (us: number) => Math.round(us * 100) / 100;
  const peers = Object.fromEntries(Object.entries(row.peers).map(([name, us]) => [name, round(us)]));
  return { ...row, us: round(row.us), floorUs: row.floorUs === null ? null : round(row.floorUs), peers };
}
