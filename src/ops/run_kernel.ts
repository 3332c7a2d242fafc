import * as tf from '@tensorflow/tfjs-core';

/**
 * Runs a kernel of the active backend; inputs that are undefined are left out, which tfjs's gradient tape needs.
 * @typeParam T `tf.Tensor`, or `tf.Tensor[]` for several outputs.
 */
export function runKernel<T extends tf.Tensor | tf.Tensor[]>(
  kernelName: string,
  inputs: Record<string, tf.Tensor | undefined>,
  attrs: object,
): T {
  const present = Object.entries(inputs).filter(([, tensor]) => tensor !== undefined);
  return tf.engine().runKernel(kernelName, Object.fromEntries(present) as tf.NamedTensorMap, attrs as tf.NamedAttrMap);
}
