import {
  binaryScores,
  compareScores,
  denseScores,
  finalScores,
  logSumExp,
  logSumExpFault,
  rankIds,
  roundToHalf,
  topKFault,
} from '../reference';

describe('the reference itself', () => {
  // case 4: a reference that flips an ascending sort breaks its own tie rule, https://github.com/onnx/onnx/pull/6593
  it('gives ties to the lower id', () => {
    expect(rankIds([5, 5, 3], 2)).toEqual([0, 1]);
    expect(rankIds([1, 2, 5, 4, 5], 5)).toEqual([2, 4, 3, 1, 0]);
  });

  it('ranks NaN first, and -0 equal to +0', () => {
    expect(rankIds([1, NaN, Infinity, -Infinity, NaN], 5)).toEqual([1, 4, 2, 0, 3]);
    expect(rankIds([-0, 0, -0], 3)).toEqual([0, 1, 2]);
    expect(Math.abs(compareScores(NaN, NaN))).toBe(0);
  });

  it('knows dense scores that were worked out by hand', () => {
    const [{ scores, magnitudes }] = denseScores(new Float32Array([1, -2]), new Float32Array([3, 4, -5, 6]), 2);
    expect([...scores]).toEqual([-5, -17]);
    expect([...magnitudes]).toEqual([11, 17]);
  });

  it('rounds to 16 bits as tables of the formats say', () => {
    expect(roundToHalf(2049, 'float16')).toBe(2048);
    expect(roundToHalf(2051, 'float16')).toBe(2052);
    expect(roundToHalf(65519, 'float16')).toBe(65504);
    expect(roundToHalf(65520, 'float16')).toBe(Infinity);
    expect(roundToHalf(2 ** -25, 'float16')).toBe(0);
    expect(roundToHalf(3 * 2 ** -25, 'float16')).toBe(2 ** -23);
    expect(roundToHalf(257, 'bfloat16')).toBe(256);
    expect(roundToHalf(-259, 'bfloat16')).toBe(-260);
  });

  it('knows binary scores that were worked out by hand', () => {
    // absmax 127, so q = hidden; two groups: 0.5 * (127 + 0 * 31) and 2 * (-3)
    const hidden = new Float32Array(64);
    hidden[0] = 127;
    hidden[40] = 3;
    const signs = new Int8Array(64).fill(1);
    signs[40] = -1;
    const head = { vocabSize: 1, hiddenSize: 64, groupSize: 32, signs, scales: new Float32Array([0.5, 2]) };
    expect([...binaryScores(hidden, head)[0]]).toEqual([57.5]);
  });

  it('knows final scores that were worked out by hand', () => {
    const row = { scores: new Float64Array([1, -3, 1, 1e9]), magnitudes: new Float64Array(4) };
    const adjust = { ids: [31, 30, 33, 31], add: [9, 1, 0, -1], repetition: [9, 2, 1, 4] };
    const options = { bias: [1, -1, 0, 0], scale: 2, adjust, mask: [1 << 30, 0b10] };
    expect([...finalScores(row, options, 30).scores]).toEqual([3, -Infinity, -Infinity, 2e9]);
    expect([...finalScores(row, { ...options, mask: [-1, -1] }, 30).scores]).toEqual([3, -33, 2, 2e9]);
    expect([...finalScores(row, { ...options, softCap: 8, mask: [0, 0b11] }, 30).scores].slice(2)).toEqual([
      16 * Math.tanh(1 / 8),
      16,
    ]);
  });

  it('finds every kind of fault in a top k', () => {
    const reference = { scores: new Float64Array([1, 3, 2, 3]), magnitudes: new Float64Array([1, 3, 2, 3]) };
    expect(topKFault([3, 3], [1, 3], reference, 2)).toBeUndefined();
    expect(topKFault([3, 3], [3, 1], reference, 2)).toMatch('out of order');
    expect(topKFault([3, 2], [1, 2], reference, 2)).toMatch('id 3 is missing');
    expect(topKFault([3, 3], [1, 1], reference, 2)).toMatch('twice');
    expect(topKFault([3.1, 3], [1, 3], reference, 2)).toMatch('too far');
    expect(topKFault([3, 3], [1, 4], reference, 2)).toMatch('outside');
    expect(topKFault([3], [1], reference, 2)).toMatch('expected 2');
  });

  it('knows log-sum-exps that were worked out by hand', () => {
    expect(logSumExp([Math.log(1), Math.log(2), Math.log(5)])).toBeCloseTo(Math.log(8), 14);
    expect(logSumExp([1e4, 1e4])).toBeCloseTo(1e4 + Math.LN2, 11);
    expect(logSumExp([-1e4, -Infinity])).toBe(-1e4);
    expect(logSumExp([1, Infinity, -Infinity, Infinity])).toBe(Infinity);
    expect(logSumExp([Infinity, NaN])).toBeNaN();
    expect(logSumExp([-Infinity, -Infinity])).toBe(-Infinity);
  });

  it('finds a log-sum-exp that is too far off, or of another kind', () => {
    expect(logSumExpFault(1.000009, [1])).toBeUndefined();
    expect(logSumExpFault(0.000009, [0])).toBeUndefined();
    expect(logSumExpFault(10000.09, [1e4])).toBeUndefined();
    expect(logSumExpFault(NaN, [NaN])).toBeUndefined();
    expect(logSumExpFault(-Infinity, [-Infinity])).toBeUndefined();
    for (const [value, score] of [
      [1.000011, 1],
      [-0.000011, 0],
      [10000.11, 1e4],
      [Infinity, 1],
      [1, Infinity],
      [-Infinity, Infinity],
      [NaN, 1],
      [1, NaN],
    ]) {
      expect(logSumExpFault(value, [score])).toMatch('too far');
    }
  });
});
