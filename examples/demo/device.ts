import { execFileSync } from 'node:child_process';
import * as tf from '@tensorflow/tfjs-node-gpu';

/** 'cpu', or the name of the GPU that tfjs computes on. */
export function deviceName(): string {
  const backend = tf.backend() as tf.KernelBackend & { isUsingGpuDevice?: boolean };
  if (backend.isUsingGpuDevice !== true) return 'cpu';
  try {
    const names = execFileSync('nvidia-smi', ['--query-gpu=name', '--format=csv,noheader'], { encoding: 'utf8' });
    return [...new Set(names.trim().split('\n'))].join(' or ');
  } catch {
    return 'GPU'; // No nvidia-smi here, as in some containers.
  }
}
