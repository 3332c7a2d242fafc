/**
 * log(Σ exp(x)) with the same bits for every grouping; `kernels/core/log_sum.h` is its twin, and says why it is as it is: a sum
 * in fixed point, in windows of 16 binary digits, that adding never rounds. What is added is a term: what 64 neighbouring
 * scores give.
 */
const { exp, floor, log, max: largerOf } = Math;

/** Scores of a term. A vocabulary is to be cut into shards at multiples of this for the bits of the whole. */
export const TERM_SIZE = 64;
/** Of 32 bits each: a LogSum as it travels from rank to rank. */
export const STATE_WORDS = 12;

const LIMBS = 5;
const WINDOW = 2 ** 16;

/** One window above that of the largest score, its own, and three below; each with a plain sum of pieces below 2^16. */
class LogSum {
  /** The largest score, NaN above all; never -0. */
  max = -Infinity;
  /** Integers below 2^53; all 0 where `max` is not finite. */
  private readonly limbs = new Float64Array(LIMBS);

  /** Adds sum · exp(max); `max` is the largest score of the term, and `sum` at most its size. */
  addTerm(max: number, sum: number): void {
    this.raise(max);
    const exponent = max * Math.LOG2E;
    const whole = floor(exponent);
    const own = floor(whole / 16);
    const below = windowOf(this.max) - own;
    if (!(below < LIMBS)) return; // NaN is the difference of two infinities
    // An integer of at most 39 digits, shifted: exact, though it may end above 2^53.
    let digits = floor(sum * 2 ** (exponent - whole) * 2 ** 32 + 0.5) * 2 ** (whole - 16 * own);
    for (let limb = below + 3; limb >= below; limb--) {
      const rest = floor(digits / WINDOW);
      if (limb < LIMBS) this.limbs[limb] += digits - rest * WINDOW;
      digits = rest;
    }
  }

  /** Adds what `store` has written. */
  addStored(words: Int32Array): void {
    const max = floatOf(words[0]);
    this.raise(max);
    const below = windowOf(this.max) - windowOf(max);
    if (!(below < LIMBS)) return;
    for (let limb = below; limb < LIMBS; limb++) {
      const at = 2 + 2 * (limb - below);
      this.limbs[limb] += words[at + 1] * 2 ** 32 + (words[at] >>> 0);
    }
  }

  store(words: Int32Array): void {
    words[0] = bitsOf(this.max);
    words[1] = 0;
    this.limbs.forEach((limb, i) => {
      words[2 + 2 * i] = (limb % 2 ** 32) | 0;
      words[3 + 2 * i] = floor(limb / 2 ** 32);
    });
  }

  value(): number {
    if (!Number.isFinite(this.max)) return this.max;
    const sum = this.limbs.reduceRight((total, limb) => total / WINDOW + limb, 0);
    const rounded = Math.fround((16 * windowOf(this.max) + 16) * Math.LN2 + log(sum));
    return rounded > this.max ? rounded : this.max;
  }

  private raise(score: number): void {
    if (Number.isNaN(this.max) || score <= this.max) return;
    const up = windowOf(score) - windowOf(this.max);
    this.max = score === 0 ? 0 : score;
    if (up === 0) return;
    const by = up < LIMBS ? up : LIMBS;
    this.limbs.copyWithin(by, 0);
    this.limbs.fill(0, 0, by);
  }
}

function windowOf(max: number): number {
  return floor(floor(max * Math.LOG2E) / 16);
}

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

function floatOf(word: number): number {
  bits[0] = word;
  return float[0];
}

function bitsOf(value: number): number {
  float[0] = value;
  return bits[0];
}

/** Of the scores of one row, in the order of their ids. Each term's exponentials are summed in float64. */
export class LogSumExp {
  private readonly sum = new LogSum();
  private readonly scores = new Float32Array(TERM_SIZE);
  private count = 0;

  add(score: number): void {
    this.scores[this.count++] = score;
    if (this.count === TERM_SIZE) this.endTerm();
  }

  /** Adds what `store` has written in this rank or another, behind the scores. */
  addStored(words: Int32Array): void {
    this.sum.addStored(words);
  }

  /** Writes STATE_WORDS. */
  store(words: Int32Array): void {
    this.endTerm();
    this.sum.store(words);
  }

  /** A float32. NaN if a score was NaN; of nothing, or of nothing but -Infinity, it is -Infinity. */
  value(): number {
    this.endTerm();
    return this.sum.value();
  }

  private endTerm(): void {
    const { scores, count } = this;
    let max = -Infinity;
    for (let i = 0; i < count; i++) max = largerOf(max, scores[i]); // NaN stays
    let sum = 0;
    for (let i = 0; i < count; i++) sum += exp(scores[i] - max);
    this.sum.addTerm(max, sum);
    this.count = 0;
  }
}
