import { join } from 'node:path';
import { judge } from '../../bench/bars';
import { measureGpus } from '../../bench/gpus';
import { table, verdicts } from '../../bench/report';

const rankProgram = [join(__dirname, 'fake_rank.js')];

describe('a benchmark run on several GPUs', () => {
  afterEach(() => delete process.env['FAKE_FAULT']);

  test('gives the times of the slowest rank, beside one GPU', async () => {
    const { rows, problems, failed } = await measureGpus({ processes: 3, seconds: 60, rankProgram });
    expect({ problems, failed }).toEqual({ problems: [], failed: false });
    expect(rows.map(({ op, measure, us, peers }) => [op, measure, us, peers.oneGpu])).toEqual([
      ['vocab_parallel_step', 'stream', 52, 40],
      ['vocab_parallel_step', 'dataSync', 102, 90],
      ['decode_step', 'stream', 302, 600],
    ]);
    expect(rows[2]).toMatchObject({ format: 'bfloat16', vocab: 248320, hidden: 5120, k: 1, rows: 1 });
    expect(table({ gpu: '', date: '', commit: '', rows })).toContain('/ one GPU');
    expect(judge(rows, 'gpus').map(({ verdict }) => verdict)).toEqual(['met', 'met']);
    const slow = rows.map((row) => ({ ...row, us: row.us * 1.2 }));
    expect(judge(slow, 'gpus').map(({ verdict }) => verdict)).toEqual(['missed', 'missed']);
    expect(verdicts(judge([], 'gpus'))).toContain('2 not measured.');
  });

  test('has no time for a step whose tokens differ', async () => {
    process.env['FAKE_FAULT'] = 'token';
    const { rows, problems, failed } = await measureGpus({ processes: 2, seconds: 60, rankProgram });
    expect(rows.map(({ op }) => op)).toEqual(['vocab_parallel_step', 'vocab_parallel_step']);
    expect(problems).toEqual(['decode_step does not give the same token in every rank and on one GPU.']);
    expect(failed).toBe(true);
  });

  test('keeps what all ranks measured before one of them ended', async () => {
    process.env['FAKE_FAULT'] = 'exit';
    const { rows, problems, failed } = await measureGpus({ processes: 2, seconds: 60, rankProgram });
    expect(rows.map(({ measure }) => measure)).toEqual(['stream', 'dataSync']);
    expect(problems).toEqual([expect.stringMatching(/^rank 1 ended with exit code 3/)]);
    expect(failed).toBe(true);
  });
});
