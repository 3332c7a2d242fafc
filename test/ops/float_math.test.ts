import { expRounded, tanhRounded } from '../../src/common/float_math';

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

/** The float32 number with these bits. */
function floatOf(word: number): number {
  bits[0] = word;
  return float[0];
}

/** A number that follows from the bits of all values. */
function checksum(values: Iterable<number>): number {
  let sum = 0;
  for (const value of values) {
    float[0] = value;
    sum = (Math.imul(sum, 31) + bits[0]) | 0;
  }
  return sum;
}

/** How many units in the last place of a float32 `exact` lie between it and `value`. */
function ulps(value: number, exact: number): number {
  const unit = 2 ** (Math.max(-126, Math.floor(Math.log2(Math.abs(exact)))) - 23);
  return Math.abs(value - exact) / unit;
}

describe('tanhRounded', () => {
  it('lies within 2 ulp, never falls, and is odd, over all exponents', () => {
    let worst = 0;
    let before = -Infinity;
    let falls = 0;
    let even = 0;
    for (let word = 1; word < 0x7f800000; word += 2999) {
      const x = floatOf(word);
      const value = tanhRounded(x);
      worst = Math.max(worst, ulps(value, Math.tanh(x)));
      if (value < before) falls++;
      if (tanhRounded(-x) !== -value || Math.fround(value) !== value) even++;
      before = value;
    }
    expect({ falls, even }).toEqual({ falls: 0, even: 0 });
    expect(worst).toBeLessThanOrEqual(2);
  });

  it.each([2 ** -126, 0.5, 0.625, 1, 2, 4, 9.1])('never falls from float to float around %d', (middle) => {
    float[0] = middle;
    const first = bits[0] - 50000;
    let before = tanhRounded(floatOf(first));
    let falls = 0;
    for (let word = first + 1; word < first + 100000; word++) {
      const value = tanhRounded(floatOf(word));
      if (value < before) falls++;
      before = value;
    }
    expect(falls).toBe(0);
  });

  it('has the bits of its twin in C++, which has given this checksum', () => {
    const values = Array.from({ length: Math.ceil((0x7f800000 - 1) / 2999) }, (_, i) =>
      tanhRounded(floatOf(1 + 2999 * i)),
    );
    expect(checksum(values)).toBe(1502006721);
  });

  it('has its limits, zero and NaN', () => {
    expect([Infinity, 3e38, 9.1, -9.1, -3e38, -Infinity].map(tanhRounded)).toEqual([1, 1, 1, -1, -1, -1]);
    expect([0, -0].map((x) => tanhRounded(x) + 0)).toEqual([0, 0]);
    expect(tanhRounded(NaN)).toBeNaN();
  });
});

describe('expRounded', () => {
  it('lies within 3 ulp from -87 to 88', () => {
    const numbers = Array.from({ length: 200001 }, (_, i) => Math.fround(-87 + (175 * i) / 200000));
    const values = numbers.map(expRounded);
    const worst = numbers.reduce((most, x, i) => Math.max(most, ulps(values[i], Math.exp(x))), 0);
    expect(worst).toBeLessThanOrEqual(3);
    expect(checksum(values)).toBe(346413868); // of its twin in C++
    expect(expRounded(0)).toBe(1);
  });
});
