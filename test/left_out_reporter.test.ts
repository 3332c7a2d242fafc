import { createRequire } from 'node:module';
import * as tf from '@tensorflow/tfjs-core';
import { loadNative } from '../src/native/load';
import { activate } from './backends';

const { kernelsUseGpu } = createRequire(__filename)('./left_out_reporter') as {
  kernelsUseGpu: () => boolean | undefined;
};

test('the reporter finds a GPU exactly where the ops would run on one', async () => {
  await activate('tensorflow');
  const { isUsingGpuDevice } = tf.backend() as tf.KernelBackend & { isUsingGpuDevice: boolean };
  expect(kernelsUseGpu()).toBe(isUsingGpuDevice && loadNative().cudaKernels());
});
