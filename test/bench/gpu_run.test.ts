import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { judge } from '../../bench/bars';
import { runChild } from '../../bench/child';
import { type GpuPrograms, measureGpu } from '../../bench/gpu';
import { table, verdicts } from '../../bench/report';
import { type Results, type Row, writeResults } from '../../bench/results';

const fake = join(__dirname, 'fake_program.js');
const programs: GpuPrograms = { cudaTest: fake, python: fake, opTimes: [fake], flashSampling: '/checkout' };
const run = (changed: Partial<GpuPrograms> = {}, seconds = 60) =>
  measureGpu({ quick: false, seconds, programs: { ...programs, ...changed }, log: () => undefined });

const LARGE = { vocab: 248320, hidden: 5120 };
function find(rows: Row[], wanted: Partial<Row>): Row {
  const all: Partial<Row> = { op: 'lm_head_topk', bias: false, logSumExp: false, ...LARGE, rows: 1, k: 50, ...wanted };
  const found = rows.filter((row) => Object.entries(all).every(([key, value]) => row[key as keyof Row] === value));
  expect(found).toHaveLength(1);
  return found[0];
}

describe('a benchmark run on a GPU', () => {
  test('puts the times of all peers beside those of the kernels', async () => {
    const { rows, problems, failed } = await run();
    expect(problems).toEqual([]);
    expect(failed).toBe(false);

    const bf16 = find(rows, { format: 'bfloat16' });
    expect(Object.keys(bf16.peers).sort()).toEqual(['flashsampling', 'torch', 'torchRead']);
    // The fastest read is the floor, whoever did it and whatever else it did.
    const half = find(rows, { format: 'float16', k: 2048 });
    expect(half.floorUs).toBe(half.peers.torchRead);
    expect(bf16.floorUs).toBe(find(rows, { format: 'bfloat16', k: 1 }).peers.flashsampling);
    expect(find(rows, { format: 'bfloat16', k: 512, rows: 64 }).launches).toBe(3);
    expect(find(rows, { format: 'bfloat16', bias: true }).peers.torch).toBeUndefined();
    expect(find(rows, { format: 'bfloat16', k: 512 }).peers.flashsampling).toBeUndefined();
    expect(find(rows, { format: 'binary' }).peers.torchBfloat16).toBe(bf16.peers.torch);
    expect(find(rows, { format: 'float32' }).peers.tfjs).toBeGreaterThan(3000);

    const launch = find(rows, { op: 'lm_head_topk_launch', format: 'float16', vocab: 64, hidden: 128 });
    expect(launch).toMatchObject({ measure: 'host', us: 9.5, floorUs: null, scratchBytes: null, peers: {} });

    const shard = { format: 'bfloat16', vocab: 32768, hidden: 0, k: 1, rows: 8 } as const;
    const usual = { floorUs: 2.5, scratchBytes: 512 };
    expect(find(rows, { op: 'vocab_parallel_argmax', ...shard })).toMatchObject({ ...usual, peers: { torch: 26.5 } });
    expect(find(rows, { op: 'argmax', ...shard })).toMatchObject({ ...usual, peers: { torch: 12 } });

    const op = find(rows, { op: 'lm_head_topk_op', format: 'float16', measure: 'dataSync' });
    expect(op.peers.tfjs).toBe(op.peers.tfjsTf32);
    expect(op).toMatchObject({ floorUs: null, scratchBytes: null });
  });

  test('judges every bar of the dense and the binary head and of the op', async () => {
    const { rows } = await run();
    const bars = judge(rows, 'gpu');
    expect(bars.filter(({ verdict }) => verdict === 'not measured')).toEqual([]);
    const verdictOf = (start: string) =>
      bars.filter(({ text }) => text.startsWith(start)).map(({ verdict }) => verdict);
    expect(verdictOf('bfloat16, 1 row, k = 50: time / floor')).toEqual(['met']);
    expect(verdictOf("float16, 64 rows, k = 1: time / FlashSampling's greedy")).toEqual(['met']);
    expect(verdictOf('float32, V = 248320, k to 2048, at worst: time / k = 50')).toEqual(['met']);
    expect(verdictOf('bfloat16, 64 rows, k to 512: scratch')).toEqual(['met']);
    expect(verdictOf('binary, V = 30522, 1 and 8 rows, k to 50, at worst: launches')).toEqual(['missed']);
    expect(verdictOf('tfjs op: host time')).toEqual(['met']);
    expect(verdictOf('argmax of a shard of 32768, 8 rows: ')).toEqual(['met']);
    expect(verdictOf('argmax of a shard of 32768, 64 rows: ')).toEqual(['met']);
    expect(verdictOf('tfjs op: first call')).toEqual(['met']);
    const home = bars.find(({ text }) => text.startsWith('tfjs op: a token brought home'));
    expect([home?.verdict, home?.value]).toEqual(['met', expect.closeTo(30)]);
    const slow = rows.map((row) => (row.k === 50 && row.rows === 1 ? { ...row, us: row.us * 1.1 } : row));
    const after = judge(slow, 'gpu').find(({ text }) => text === 'bfloat16, 1 row, k = 50: time / floor');
    expect(after?.verdict).toBe('missed');
    const slowScan = rows.map((row) => (row.op === 'vocab_parallel_argmax' ? { ...row, us: 6 } : row));
    const missed = judge(slowScan, 'gpu').filter(({ text, verdict }) => /^argmax/.test(text) && verdict === 'missed');
    expect(missed).toHaveLength(4); // all but 64 rows
    expect(judge([], 'gpu').every(({ verdict }) => verdict === 'not measured')).toBe(true);
    expect(verdicts(bars)).toContain('0 not measured.');
  });

  test('keeps what a program printed before its time was over', async () => {
    process.env['FAKE_HANG'] = 'flashsampling';
    try {
      const { rows, problems, failed } = await run({}, 5);
      expect(problems).toEqual([expect.stringMatching(/^FlashSampling was cut after \d s/)]);
      expect(failed).toBe(false);
      expect(find(rows, { format: 'bfloat16' }).peers.flashsampling).toBeGreaterThan(0);
    } finally {
      delete process.env['FAKE_HANG'];
    }
  });

  test('goes on without the peers that are not there, and says so', async () => {
    const { rows, problems, failed } = await run({ python: '/no/python3', flashSampling: undefined });
    expect(problems).toEqual([
      expect.stringMatching(/^torch was left out: \/no\/python3 does not run/),
      expect.stringMatching(/^FlashSampling was left out: FLASHSAMPLING/),
    ]);
    expect(failed).toBe(false);
    expect(find(rows, { format: 'bfloat16' }).peers).toEqual({});
  });

  test('fails without the kernels', async () => {
    const { rows, problems, failed } = await run({ cudaTest: '/no/cuda_test' });
    expect(problems[0]).toMatch(/cuda_test is not there/);
    expect(failed).toBe(true);
    expect(rows.every(({ op }) => op === 'lm_head_topk_op')).toBe(true);
  });

  test('tells what a failing program said', async () => {
    const args = ['-e', 'console.log(\'{"us":1}\'); console.error("no driver"); process.exit(3)'];
    const output = await runChild({ program: process.execPath, args, name: 'it', seconds: 20 });
    expect(output).toEqual({ objects: [{ us: 1 }], problem: 'it ended with exit code 3: no driver' });
  });

  test('writes a file that reads back, and a table of it', async () => {
    const { rows } = await run();
    const folder = mkdtempSync(join(tmpdir(), 'tfjs-lm-head-'));
    try {
      const results: Results = { gpu: 'NVIDIA H200', date: '2026-01-01T00:00:00.000Z', commit: 'abc', rows };
      const read = JSON.parse(readFileSync(writeResults(folder, 'nvidia-h200', results), 'utf8')) as Results;
      expect(read.rows).toHaveLength(rows.length);
      expect(read.rows[0].us).toBeCloseTo(rows[0].us, 1);
      expect(read).toMatchObject({ gpu: 'NVIDIA H200', commit: 'abc' });
      expect(table(read).split('\n')).toHaveLength(rows.length + 1);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
