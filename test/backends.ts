/** Runs a suite on every backend that there is to run it on. */
import { createRequire } from 'node:module';
import * as tf from '@tensorflow/tfjs-core';
import { registerLmHeadKernels } from 'tfjs-lm-head';
import { loadNative } from '../src/native/load';
import { usesGpu } from '../src/native/uses_gpu';

/** 'composed' is tfjs's cpu backend under another name, so that it gets the kernels of all backends but two. */
export type BackendName = 'cpu' | 'composed' | 'tensorflow';

// jest runs no `await import`
const load = createRequire(__filename);

/** Set by jest.gpu.config.js. */
export const GPU_MODE = process.env.TFJS_LM_HEAD_TEST_GPU === '1';

const BACKENDS: readonly BackendName[] = GPU_MODE ? ['tensorflow'] : ['cpu', 'composed', 'tensorflow'];

/**
 * `describe` once a backend, which is the active one in its tests. On a GPU only 'tensorflow' runs, and there every test
 * fails if the kernels would not run on a GPU.
 */
export function describeEachBackend(name: string, suite: (backend: BackendName) => void): void {
  describe.each(BACKENDS)(`${name} on %s`, (backend) => {
    beforeAll(() => activate(backend));
    suite(backend);
  });
}

/** Makes `backend` the active one, and loads it first where need be. */
export async function activate(backend: BackendName): Promise<void> {
  tf.env().set('IS_TEST', true); // tfjs then checks that no kernel leaves data behind, and gives no advice
  if (backend === 'tensorflow') {
    load('@tensorflow/tfjs-node-gpu');
  } else {
    load('@tensorflow/tfjs-backend-cpu');
    if (backend === 'composed' && tf.findBackend('composed') === null) {
      tf.copyRegisteredKernels('cpu', 'composed');
      registerLmHeadKernels('composed'); // replaces the copies of our own cpu kernels
      tf.registerBackend('composed', tf.findBackendFactory('cpu'));
    }
  }
  if (!(await tf.setBackend(backend))) throw new Error(`Backend '${backend}' does not start.`);
  if (backend === 'tensorflow' && GPU_MODE) requireGpu();
}

function requireGpu(): void {
  const native = loadNative();
  if (!native.cudaKernels())
    throw new Error('The op library was built without CUDA kernels: run the setup with --cuda.');
  if (native.gpuCount() === 0) throw new Error('There is no NVIDIA GPU for this process.');
  if (!usesGpu()) throw new Error('TensorFlow does not use the GPU.');
}
