/**
 * Runs in a child process of `probe` in doctor.ts: node probe.js TFJS_FOLDER. One JSON object a line goes to descriptor 3.
 * Everything is loaded with require at the last moment, so that what fails to load is reported as such.
 */
import type * as tfcore from '@tensorflow/tfjs-core';
import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { restoreNodeUtil } from '../native/node_compat';
import { packageRoot } from '../native/package_root';
import { outputFolder } from './native_build';

interface Addon {
  load(library: string): void;
  cudaKernels(): boolean;
  gpuCount(): number;
}
interface Ops {
  lmHeadTopK(
    hidden: tfcore.Tensor,
    head: tfcore.Tensor2D,
    k: number,
  ): { values: tfcore.Tensor; indices: tfcore.Tensor };
}

function check<T>(what: string, work: () => { detail: string; result: T }): T {
  try {
    const { detail, result } = work();
    writeSync(3, `${JSON.stringify({ what, ok: true, detail })}\n`);
    return result;
  } catch (error) {
    writeSync(3, `${JSON.stringify({ what, ok: false, detail: (error as Error).message.split('\n')[0] })}\n`);
    process.exit(1);
  }
}

function expect(condition: boolean, message: string): void {
  if (!condition) throw new Error(message);
}

function main(tfjsFolder: string): void {
  restoreNodeUtil();
  const root = packageRoot();
  const load = createRequire(__filename);

  const tf = check('Loading tfjs', () => {
    const result = load(tfjsFolder) as typeof tfcore;
    expect(result.getBackend() === 'tensorflow', `its backend is '${result.getBackend()}' and should be 'tensorflow'`);
    const data = result.tidy(() => Array.from(result.matMul([[1, 2]], [[3], [4]]).dataSync()));
    expect(data[0] === 11, `[1 2] x [3 4] gave ${data.join()} and should give 11`);
    return { detail: `backend '${result.getBackend()}' works`, result };
  });
  check('One tfjs-core', () => {
    const theirs = createRequire(join(tfjsFolder, 'package.json')).resolve('@tensorflow/tfjs-core');
    const ours = load.resolve('@tensorflow/tfjs-core');
    expect(theirs === ours, `tfjs uses ${theirs} and tfjs-lm-head ${ours}: remove one with 'npm dedupe'`);
    return { detail: 'shared by tfjs and tfjs-lm-head', result: undefined };
  });
  check('Op library', () => {
    const addon = load(join(outputFolder(root), 'tfjs_lm_head_addon.node')) as Addon;
    addon.load(join(outputFolder(root), 'libtfjs_lm_head_ops.so'));
    const kernels = addon.cudaKernels() ? 'CPU and CUDA kernels' : 'CPU kernels';
    return { detail: `loads with ${kernels}; ${addon.gpuCount()} GPU(s) visible`, result: undefined };
  });
  check('lmHeadTopK', () => {
    const ops = load('../index.js') as Ops;
    const { values, indices } = ops.lmHeadTopK(
      tf.tensor2d([[1, 2]]),
      tf.tensor2d([
        [1, 0],
        [0, 1],
        [1, 1],
      ]),
      2,
    );
    const answer = JSON.stringify([Array.from(values.dataSync()), Array.from(indices.dataSync())]);
    expect(answer === '[[3,2],[2,1]]', `gave ${answer} and should give [[3,2],[2,1]]`);
    return { detail: 'runs and is right', result: undefined };
  });
}

main(process.argv[2] ?? '');
