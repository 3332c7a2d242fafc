import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureMatrix, otherFormats } from '../../bench/matrix';
import { CELL_BARS, judgeMatrix } from '../../bench/matrix_bars';
import { matrixChart } from '../../bench/matrix_chart';
import { matrixReport } from '../../bench/report';
import { readResults, writeResults, type Results, type Row } from '../../bench/results';
import { FORMATS, matrixTrials } from '../../bench/trials';
import type { HeadFormat } from '../../src/kernel_names';

const fake = join(__dirname, 'fake_program.js');
const run = (formats: readonly HeadFormat[], { seconds = 60, cudaTest = fake, python = fake } = {}) => {
  const saved: number[] = [];
  const save = (rows: Row[]) => void saved.push(rows.length);
  const measured = measureMatrix({ formats, seconds, programs: { cudaTest, python }, log: () => undefined, save });
  return measured.then((result) => ({ ...result, saved }));
};
const CELLS = 972;
const [CUBLAS, ORDER, BY_K] = CELL_BARS;

function find(rows: Row[], wanted: Partial<Row>): Row {
  const found = rows.filter((row) => Object.entries(wanted).every(([key, value]) => row[key as keyof Row] === value));
  expect(found).toHaveLength(1);
  return found[0];
}

describe('the matrix', () => {
  afterEach(() => {
    delete process.env['FAKE_HANG'];
    delete process.env['FAKE_WRONG'];
  });

  test('has 972 cells a format', () => {
    for (const format of FORMATS) expect(matrixTrials([format])).toHaveLength(CELLS);
  });

  test('puts the same cell of the peer beside each of the kernels', async () => {
    const { rows, problems, failed, saved } = await run(['bfloat16', 'binary']);
    expect({ problems, failed }).toEqual({ problems: [], failed: false });
    expect(saved).toEqual([CELLS, 2 * CELLS]);
    const cell = { vocab: 128256, hidden: 2048, rows: 8, k: 512, data: 'two values' } as const;
    const dense = find(rows, { ...cell, format: 'bfloat16' });
    expect(Object.keys(dense.peers).sort()).toEqual(['torch', 'torchRead']);
    expect(dense.floorUs).toBe(dense.peers.torchRead);
    const binary = find(rows, { ...cell, format: 'binary' });
    expect(binary.peers.torchBfloat16).toBe(dense.peers.torch);
    expect(binary.floorUs).toBe(binary.peers.torchRead);
  });

  test('measures the bfloat16 peer for a binary head alone', async () => {
    const { rows, problems } = await run(['binary']);
    expect(problems).toEqual([]);
    expect(rows).toHaveLength(CELLS);
    expect(rows.every(({ format, peers }) => format === 'binary' && peers.torchBfloat16 !== undefined)).toBe(true);
  });

  test('finds the worst cells of each bar', async () => {
    const { rows } = await run(['bfloat16']);
    const verdict = (bar: (typeof CELL_BARS)[number], format: HeadFormat) =>
      judgeMatrix(rows).filter((one) => one.bar === bar && one.format === format)[0];
    for (const bar of [CUBLAS, ORDER, BY_K]) {
      const { missed, notMeasured, cells } = verdict(bar, 'bfloat16');
      expect({ missed, notMeasured }).toEqual({ missed: 2, notMeasured: 0 }); // both heads with 32,000 ids
      expect(cells[0].cell).toMatchObject({ vocab: 32000, rows: 64, k: 2048, data: 'ascending' });
    }
    expect(verdict(CUBLAS, 'bfloat16').met).toBe(CELLS - 2);
    expect(verdict(ORDER, 'bfloat16').met).toBe(9 * 6 * 12 - 2);
    // What was not measured is not met.
    expect(verdict(CUBLAS, 'float32')).toMatchObject({ met: 0, missed: 0, notMeasured: CELLS, cells: [] });
    const text = matrixReport(judgeMatrix(rows));
    expect(text).toMatch(/MISSED +bfloat16 +32000 +4096 +64 +2048 +ascending/);
    expect(text).toMatch(/float32 +0 met +0 missed +972 not measured/);
  });

  test('a wrong cell has no time, is told, and fails the run', async () => {
    process.env['FAKE_WRONG'] = 'bfloat16';
    const { rows, problems, failed } = await run(['bfloat16']);
    expect(failed).toBe(true);
    expect(rows).toHaveLength(CELLS - 2);
    expect(problems).toContain(
      'Not right, so not timed: bfloat16, V = 32000, H = 2048, 8 rows, k = 512, equal: id 7 with 1.0.',
    );
    const bar = judgeMatrix(rows).filter((one) => one.bar === CUBLAS && one.format === 'bfloat16')[0];
    expect(bar.notMeasured).toBe(2);
  });

  test('a run that is cut keeps what was measured until then', async () => {
    process.env['FAKE_HANG'] = 'float16';
    const { rows, problems, failed, saved } = await run(['bfloat16', 'float16', 'float32'], { seconds: 5 });
    expect(failed).toBe(true);
    expect(problems[0]).toMatch(/^cuda_test, float16 was cut after \d s/);
    expect(rows.filter(({ format }) => format === 'bfloat16')).toHaveLength(CELLS);
    const cut = rows.filter(({ format }) => format === 'float16');
    expect(cut).toHaveLength(2 * 108);
    expect(cut.every(({ peers }) => peers.torch === undefined)).toBe(true); // no time was left for it
    expect(saved).toEqual([CELLS, CELLS + 2 * 108]);
  });

  test('goes on without PyTorch, and no cell is then better than it', async () => {
    const { rows, problems, failed } = await run(['float32'], { python: '/no/python3' });
    expect(problems).toEqual([expect.stringMatching(/^torch, float32 was left out/)]);
    expect(failed).toBe(false);
    const bar = judgeMatrix(rows).filter((one) => one.bar === CUBLAS && one.format === 'float32')[0];
    expect(bar).toMatchObject({ met: 0, missed: 0, notMeasured: CELLS });
  });

  test('fails without the kernels', async () => {
    const { rows, problems, failed } = await run(['float32'], { cudaTest: '/no/cuda_test' });
    expect({ rows, failed }).toEqual({ rows: [], failed: true });
    expect(problems[0]).toMatch(/cuda_test is not there/);
  });

  test('keeps other formats of the same GPU and commit', async () => {
    const { rows } = await run(['bfloat16', 'float16']);
    const earlier: Results = { gpu: 'NVIDIA H200', date: '2026-01-01T00:00:00.000Z', commit: 'abc', rows };
    const kept = (gpu: string, commit: string) => otherFormats({ ...earlier, commit }, { gpu, commit }, ['float16']);
    expect(kept('NVIDIA H200', 'abc').every(({ format }) => format === 'bfloat16')).toBe(true);
    expect(kept('NVIDIA H200', 'abc')).toHaveLength(CELLS);
    expect(kept('NVIDIA H100', 'abc')).toEqual([]);
    expect(kept('NVIDIA H200', 'abc-dirty')).toEqual([]);
    expect(otherFormats(earlier, { gpu: 'NVIDIA H200', commit: 'def' }, ['float16'])).toEqual([]);
    expect(otherFormats(undefined, earlier, ['float16'])).toEqual([]);
  });

  test('writes a file that reads back, and a chart of it', async () => {
    const { rows } = await run(['bfloat16']);
    const folder = mkdtempSync(join(tmpdir(), 'tfjs-lm-head-'));
    try {
      const results: Results = { gpu: 'NVIDIA H200', date: '2026-01-01T00:00:00.000Z', commit: 'abc', rows };
      const path = writeResults(folder, 'nvidia-h200-matrix', results);
      expect(readFileSync(path, 'utf8').split('\n')).toHaveLength(CELLS + 8);
      const read = readResults(path);
      expect(read.rows[500].data).toBe(rows[500].data);
      expect(JSON.stringify(matrixChart(read))).toContain('NVIDIA H200');
      expect(matrixChart({ ...read, rows: [] })).toBeUndefined();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
