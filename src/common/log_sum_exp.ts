const { exp, log } = Math;

/** log(Σ exp(x)) of all x added, in float64. Terms are kept relative to the largest so far, so that none overflows. */
export class LogSumExp {
  private largest = -Infinity;
  private sum = 0;

  add(x: number): void {
    if (x > this.largest) {
      this.sum = this.sum * exp(this.largest - x) + 1;
      this.largest = x;
    } else {
      this.sum += x === this.largest ? 1 : exp(x - this.largest); // infinities are equal, but their difference is NaN
    }
  }

  /** NaN if an x was NaN; of nothing, or of nothing but -Infinity, it is -Infinity. */
  value(): number {
    return this.largest + log(this.sum);
  }
}
