/** A run on the CPU: the op with TensorFlow's CPU kernels against tf.topk(tf.matMul(...)), by turns in one process. */
import { join } from 'node:path';
import { runChild } from './child';
import { opRows, type Measured } from './gpu';
import type { OpRequest, OpTime } from './op_times';
import type { Row } from './results';
import { sameShape } from './results';
import { cpuOpTrials, TINY } from './trials';

export interface CpuRun {
  quick: boolean;
  seconds: number;
  /** Arguments for Node.js. */
  opTimes: string[];
  log: (line: string) => void;
}

export const defaultOpTimes = [join(__dirname, 'op_times.js')];

export async function measureCpu({ quick, seconds, opTimes, log }: CpuRun): Promise<Measured> {
  log('tfjs op on the CPU ...');
  const input: OpRequest = { trials: cpuOpTrials(quick), gpu: false, onlyTfjs: false };
  // Also on a machine with a GPU: an index that no GPU has hides all of them.
  const env = { TF_CPP_MIN_LOG_LEVEL: '2', CUDA_VISIBLE_DEVICES: '-1' };
  const { objects, problem } = await runChild({
    program: process.execPath,
    args: opTimes,
    name: 'The tfjs op',
    seconds,
    input,
    env,
  });
  const rows = opRows(objects as unknown as OpTime[], []);
  return {
    rows: rows.flatMap(cpuRow),
    problems: problem === undefined ? [] : [problem],
    failed: problem !== undefined,
  };
}

/** Here the op with its result read is what a kernel's time is on a GPU. A tiny head says what a call costs. */
function cpuRow(row: Row): Row[] {
  if (sameShape(row, TINY)) return row.measure === 'dataSync' ? [] : [row];
  return row.measure === 'dataSync' ? [{ ...row, op: 'lm_head_topk' }] : [];
}
