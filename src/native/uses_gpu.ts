import * as tf from '@tensorflow/tfjs-core';

/** Whether ops of the active backend run on an NVIDIA GPU: it is that of tfjs-node, and TensorFlow has found one. */
export function usesGpu(): boolean {
  const backend = tf.backend() as tf.KernelBackend & { isUsingGpuDevice?: boolean };
  return tf.getBackend() === 'tensorflow' && backend.isUsingGpuDevice === true;
}
