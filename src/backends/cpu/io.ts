/** How kernels that compute in plain TypeScript get at their inputs. */
import * as tf from '@tensorflow/tfjs-core';

/** The values of a tensor, wherever they live now: reading does not move them to the active backend. */
export function read(info: tf.TensorInfo): ArrayLike<number> {
  return tf.engine().readSync(info.dataId) as Float32Array | Int32Array;
}
