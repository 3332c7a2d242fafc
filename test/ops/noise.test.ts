import { gumbelOf, logRounded, noiseOf, noiseWords, noisy, seedWords, uniformOf } from '../../src/common/noise';

const { abs, floor, fround, log2, sqrt } = Math;

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer);

/** The float32 number with these bits. */
function floatOf(word: number): number {
  bits[0] = word;
  return float[0];
}

function wordsOf(seed: readonly number[], row: number, id: number): string[] {
  const words = new Uint32Array(4);
  noiseWords(seed, 0, row, id, words);
  return Array.from(words, (word) => word.toString(16).padStart(8, '0'));
}

/** Philox4x32-10 in whole numbers of any length. */
function philox(counter: readonly number[], key: readonly number[]): string[] {
  let c = counter.map((n) => BigInt(n >>> 0));
  let k = key.map((n) => BigInt(n >>> 0));
  for (let round = 0; round < 10; round++) {
    const [a, b] = [0xd2511f53n * c[0], 0xcd9e8d57n * c[2]];
    c = [(b >> 32n) ^ c[1] ^ k[0], b & 0xffffffffn, (a >> 32n) ^ c[3] ^ k[1], a & 0xffffffffn];
    k = [(k[0] + 0x9e3779b9n) & 0xffffffffn, (k[1] + 0xbb67ae85n) & 0xffffffffn];
  }
  return c.map((n) => n.toString(16).padStart(8, '0'));
}

describe('noiseWords', () => {
  it("are the known answer of Random123's philox4x32-10", () => {
    expect(wordsOf([0, 0, 0, 0], 0, 0)).toEqual(['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']);
    expect(wordsOf([-1, -1, -1, -1], -1, -1 >>> 0)).toEqual(philox([0x0fffffff * 8 + 7, -1, -1, -1], [-1, -1]));
  });

  it('follow from all of seed, step, row and block', () => {
    for (let i = 0; i < 2000; i++) {
      const [seed0, seed1, step0, step1, row, id] = [1, 2, 3, 4, 5, 6].map((n) => Math.imul(i * 6 + n, 0x9e3779b1));
      const block = ((id >>> 4) << 3) | (id & 7);
      expect(wordsOf([seed0, seed1, step0, step1], row, id)).toEqual(
        philox([block, row, step0, step1], [seed0, seed1]),
      );
    }
  });

  it('are shared by ids 8 apart, which have two each, and by no others', () => {
    const seed = [1, 2, 3, 4];
    const owners = new Map<string, number[]>();
    const noise = new Set<number>();
    for (let id = 0; id < 4096; id++) {
      const key = wordsOf(seed, 7, id).join();
      owners.set(key, [...(owners.get(key) ?? []), id]);
      noise.add(noiseOf(seed, 0, 7, id));
    }
    expect([...owners.values()].every(([a, b, ...rest]) => b === a + 8 && rest.length === 0)).toBe(true);
    expect(noise.size).toBeGreaterThan(4090);
  });
});

describe('seedWords', () => {
  it('are the halves of seed and step', () => {
    expect(seedWords(5, 0)).toEqual([5, 0, 0, 0]);
    expect(seedWords(2 ** 53 - 1, 2 ** 32 + 3)).toEqual([-1, 2 ** 21 - 1, 3, 1]);
    expect(seedWords(2 ** 31, 2 ** 32 - 1)).toEqual([-(2 ** 31), 0, -1, 0]);
  });
});

describe('uniformOf', () => {
  it('lies in (0, 1), with all digits of a float near 0', () => {
    expect(uniformOf(-1, -1)).toBe(1 - 2 ** -24);
    expect(uniformOf(0, 0)).toBe(2 ** -64);
    expect(uniformOf(0, -1)).toBe(2 ** -32);
    expect(uniformOf(2 ** 31, 0)).toBe(0.5);
    expect(uniformOf(1, 0x80000000)).toBe(1.5 * 2 ** -32);
  });
});

describe('logRounded', () => {
  it('lies within 1 ulp over all normal numbers', () => {
    let worst = 0;
    const check = (x: number) => {
      const [value, exact] = [logRounded(x), Math.log(x)];
      if (value !== fround(value)) worst = Infinity;
      if (exact !== 0) worst = Math.max(worst, abs(value - exact) / 2 ** (floor(log2(abs(exact))) - 23));
    };
    for (let word = 0x00800000; word < 0x7f800000; word += 1987) check(floatOf(word));
    for (let word = 0x3f000000; word < 0x40000000; word += 17) check(floatOf(word)); // [0.5, 2)
    expect(worst).toBeLessThanOrEqual(1);
    expect(logRounded(1)).toBe(0);
  });
});

describe('gumbelOf', () => {
  it('is -log(-log(1 - uniform)) to within a few ulp of the largest step', () => {
    let worst = 0;
    for (let word = floatBits(2 ** -64); word <= floatBits(1 - 2 ** -24); word += 1009) {
      const uniform = floatOf(word);
      const exact = -Math.log(-Math.log1p(-uniform));
      worst = Math.max(worst, abs(gumbelOf(uniform) - exact) / Math.max(1, abs(exact)));
    }
    expect(worst).toBeLessThan(4e-7);
  });

  it('falls with uniform, but for the last digits', () => {
    let rises = 0;
    for (let word = floatBits(2 ** -64), before = Infinity; word <= floatBits(1 - 2 ** -24); word += 10007) {
      const value = gumbelOf(floatOf(word));
      if (value > before + 1e-6 * abs(before)) rises++;
      before = value;
    }
    expect(rises).toBe(0);
  });
});

function floatBits(x: number): number {
  float[0] = x;
  return bits[0];
}

describe('noise', () => {
  it('has the bits of its twin in C++, which has given this checksum', () => {
    let sum = 0;
    for (let i = 0; i < 1e6; i++) {
      const x = Math.imul(i, 0x9e3779b1);
      const [seed1, step0, step1, row, id] = [3, 5, 7, 11, 13].map((n, j) => (Math.imul(x, n) + j + 1) | 0);
      sum = (Math.imul(sum, 31) + floatBits(noiseOf([x, seed1, step0, step1], 0, row, id))) | 0;
    }
    expect(sum).toBe(165875015);
  });

  const COUNT = 1e6;
  const SIDE = 32; // COUNT is about SIDE^4
  const EULER_GAMMA = 0.5772156649015329;

  // The noise of every (seed, step, row, id) of a box.
  const noise = new Float64Array(SIDE ** 4);
  beforeAll(() => {
    const seed = new Int32Array(4);
    let at = 0;
    for (seed[0] = 0; seed[0] < SIDE; seed[0]++) {
      for (seed[2] = 0; seed[2] < SIDE; seed[2]++) {
        for (let row = 0; row < SIDE; row++) {
          for (let id = 0; id < SIDE; id++) noise[at++] = noiseOf(seed, 0, row, id) - EULER_GAMMA;
        }
      }
    }
  });

  it('has mean, variance, skewness and tails of the standard Gumbel distribution', () => {
    const n = noise.length;
    expect(n).toBeGreaterThanOrEqual(COUNT);
    const moment = (power: number) => noise.reduce((sum, x) => sum + x ** power, 0) / n;
    const variance = Math.PI ** 2 / 6;
    expect(abs(moment(1))).toBeLessThan(5 * sqrt(variance / n));
    // Kurtosis 5.4: the variance of a square is 4.4 variance².
    expect(abs(moment(2) - variance)).toBeLessThan(5 * variance * sqrt(4.4 / n));
    expect(moment(3) / variance ** 1.5).toBeCloseTo(1.1395, 1);
    for (const x of [-2, -1, 0, 1, 3, 6, 9]) {
      const p = Math.exp(-Math.exp(-x));
      const below = noise.reduce((count, y) => count + Number(y + EULER_GAMMA <= x), 0);
      expect(abs(below - n * p)).toBeLessThanOrEqual(5 * sqrt(n * p * (1 - p)) + 5);
    }
  });

  it.each([
    ['seeds', SIDE ** 3],
    ['steps', SIDE ** 2],
    ['rows', SIDE],
    ['ids', 1],
    ['ids of a block', 8],
  ])('of neighbouring %s does not correlate', (_what, stride) => {
    let sum = 0;
    let pairs = 0;
    for (let i = 0; i + stride < noise.length; i++) {
      // The neighbour in this coordinate, if the box has one.
      const place = floor(i / (stride === 8 ? 1 : stride)) % SIDE;
      if (place + (stride === 8 ? 8 : 1) >= SIDE) continue;
      sum += noise[i] * noise[i + stride];
      pairs++;
    }
    expect(pairs).toBeGreaterThan(7e5);
    expect(abs(sum / pairs / (Math.PI ** 2 / 6))).toBeLessThan(5 / sqrt(pairs));
  });

  it('differs between upper halves of seed and step, and between far rows', () => {
    const values = [
      noiseOf([1, 0, 0, 0], 0, 0, 5),
      noiseOf([1, 1, 0, 0], 0, 0, 5),
      noiseOf([1, 0, 0, 1], 0, 0, 5),
      noiseOf([1, 0, 1, 0], 0, 0, 5),
      noiseOf([0, 0, 0, 0], 0, 0, 5),
      noiseOf([1, 0, 0, 0], 0, 2 ** 31 - 1, 5),
    ];
    expect(new Set(values).size).toBe(values.length);
    expect(noiseOf([9, 9, 1, 0, 0, 0], 2, 0, 5)).toBe(values[0]);
  });
});

describe('noisy', () => {
  it('divides by the temperature, and leaves a score at 0 as it is', () => {
    expect(noisy(3, 0, 7)).toBe(3);
    expect(noisy(3, 2, 0.25)).toBe(1.75);
    expect(noisy(1, fround(0.1), 0.5)).toBe(fround(fround(1 / fround(0.1)) + 0.5));
    expect(noisy(-Infinity, 0.5, 3)).toBe(-Infinity);
    expect(noisy(NaN, 0.5, 3)).toBeNaN();
  });
});
