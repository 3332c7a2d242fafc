import * as tf from '@tensorflow/tfjs-core';
import { LogSumExp, STATE_WORDS } from '../../common/log_sum_exp';

/** The log-sum-exp of each row, as kernels return it beside other results. */
export class LogSums {
  private readonly sums: LogSumExp[];

  constructor(private readonly leading: number[]) {
    this.sums = Array.from({ length: tf.util.sizeFromShape(leading) }, () => new LogSumExp());
  }

  /** A final score; ids ascend in each row. */
  add(row: number, score: number): void {
    this.sums[row].add(score);
  }

  /** float32 [...]. */
  values(): tf.Tensor {
    const logs = Float32Array.from(this.sums, (sum) => sum.value());
    return tf.tensor(logs, this.leading, 'float32');
  }

  /** int32 [..., STATE_WORDS]. */
  states(): tf.Tensor {
    const words = new Int32Array(this.sums.length * STATE_WORDS);
    this.sums.forEach((sum, row) => sum.store(words.subarray(row * STATE_WORDS, (row + 1) * STATE_WORDS)));
    return tf.tensor(words, [...this.leading, STATE_WORDS], 'int32');
  }
}
