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
  // A loop, for this is part of the host time of every op.
  const present: tf.NamedTensorMap = {};
  for (const name of Object.keys(inputs)) {
    const tensor = inputs[name];
    if (tensor !== undefined) present[name] = tensor;
  }
  return tf.engine().runKernel(kernelName, present, attrs as tf.NamedAttrMap);
}
