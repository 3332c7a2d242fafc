/**
 * One rank of a test with several processes: over NCCL where TensorFlow computes on a GPU, over TCP elsewhere.
 * usage: node dist/test/ranks/program.js TASK; RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and TIMEOUT_MS are set. Prints one
 * JSON object, a `RankReport`.
 */
import '../../examples/tensor_parallel/environment';
import '@tensorflow/tfjs-node-gpu';
import { joinGroup } from '../../examples/tensor_parallel/join_group';
import { loadNative } from '../../src/native/load';
import { usesGpu } from '../../src/native/uses_gpu';
import { argmaxSteps } from './argmax_steps';
import { sameIds, tooWide, unequalCalls, untilDeath, untilExit, wrongArgument } from './failures';
import type { RankReport } from './report';
import { topKBits } from './top_k_bits';

const TASKS = { argmaxSteps, topKBits, untilDeath, untilExit, unequalCalls, sameIds, wrongArgument, tooWide };
export type Task = keyof typeof TASKS | 'countGpus';

/** What the first lines of a report say of where it ran. */
const device = () => (usesGpu() ? 'gpu' : 'cpu');

function run(task: Task): RankReport {
  if (task === 'countGpus') {
    const native = loadNative();
    return { device: device(), gpus: native.cudaKernels() ? native.gpuCount() : 0 };
  }
  const start = Date.now();
  try {
    const { group, close } = joinGroup(Number(process.env['TIMEOUT_MS']));
    let report: Partial<RankReport> = {};
    try {
      report = TASKS[task](group);
      return { device: device(), ...report };
    } finally {
      if (report.leavesOpen !== true) close();
    }
  } catch (error) {
    return { device: device(), error: (error as Error).message, waitedMs: Date.now() - start };
  }
}

console.log(JSON.stringify(run(process.argv[2] as Task)));
