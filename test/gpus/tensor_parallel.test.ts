/** As many processes as there are GPUs, up to 8, joined by NCCL. Settings of NCCL come from the environment. */
import { runExample } from '../examples/run_example';
import type { RankReport } from '../ranks/report';
import type { RankEnd } from '../start_ranks';
import { startRanks } from '../start_ranks';

const TIMEOUT_MS = 10000;
/** Beyond TIMEOUT_MS, for what a rank still does before it reports. */
const GRACE_MS = 5000;

let worldSize: number;

/** CUDA's numbers of the GPUs that this test may use. */
const visible = process.env['CUDA_VISIBLE_DEVICES']?.split(',');
const env = (rank: number) => ({ CUDA_VISIBLE_DEVICES: visible?.[rank] ?? String(rank) });

beforeAll(async () => {
  const [{ report, stderr }] = await startRanks('countGpus', {
    worldSize: 1,
    timeoutMs: TIMEOUT_MS,
    env: () => ({}),
  });
  worldSize = Math.min(8, report.gpus ?? 0);
  if (worldSize < 2) {
    throw new Error(
      `These tests need two GPUs and CUDA kernels ('npm run setup -- --cuda'), but found ${worldSize} GPUs.\n${stderr}`,
    );
  }
});

/** Reports of processes that have ended well. */
function reports(ends: RankEnd[]): Partial<RankReport>[] {
  for (const end of ends) expect(end).toMatchObject({ code: 0, report: { device: 'gpu' } });
  return ends.map(({ report }) => report);
}

const lastRank = () => new RegExp(`\\brank ${worldSize - 1}\\b`);

describe('a process on each GPU', () => {
  it('gets the token of the whole in 10,000 steps in which the winner moves between them', async () => {
    const ranks = reports(await startRanks('argmaxSteps', { worldSize, timeoutMs: TIMEOUT_MS, env }));
    for (const { right, wrong, error, digest } of ranks) {
      expect({ right, wrong, error, digest }).toEqual({ right: 10000, digest: ranks[0].digest });
    }
  });

  it('gets the top k of one process bit for bit, in every format', async () => {
    const ranks = reports(await startRanks('topKBits', { worldSize, timeoutMs: TIMEOUT_MS, env }));
    for (const { right, wrong, error, digest } of ranks) {
      expect({ right, wrong, error, digest }).toEqual({ right: 3 * 4 * 5, digest: ranks[0].digest });
    }
  });

  it('gets an error that names a rank which was killed', async () => {
    const ends = await startRanks('untilDeath', { worldSize, timeoutMs: TIMEOUT_MS, env });
    expect(ends[worldSize - 1]).toMatchObject({ code: null, signal: 'SIGKILL' });
    for (const { right, wrong, error, waitedMs } of reports(ends.slice(0, -1))) {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toMatch(lastRank());
      expect(error).toMatch(/vocabParallelArgmax/i);
      expect(waitedMs).toBeLessThan(TIMEOUT_MS + GRACE_MS);
    }
  });

  it.each([
    ['process.exit', 7],
    ['an error', 1],
    ['nothing left to do', 0],
  ])('gets an error that names a rank which has ended by %s, with its code %d', async (leave, code) => {
    const leaving = (rank: number) => ({ ...env(rank), LEAVE: leave });
    const ends = await startRanks('untilExit', { worldSize, timeoutMs: TIMEOUT_MS, env: leaving });
    expect(ends[worldSize - 1]).toMatchObject({ code, signal: null });
    for (const { right, wrong, error, waitedMs } of reports(ends.slice(0, -1))) {
      expect({ isRight: right !== undefined && right >= 50 && right <= 80, wrong }).toEqual({ isRight: true });
      expect(error).toMatch(/vocabParallelArgmax.*has ended without closing the group/is);
      expect(error).toMatch(lastRank());
      expect(waitedMs).toBeLessThan(GRACE_MS);
    }
  });

  it.each([
    ['wrongArgument', 'vocabParallelArgmax', /'vocabStart' must be an integer/],
    ['tooWide', 'lmHeadTopK', /rows that fit in this GPU's shared memory/],
  ] as const)('gets an error at once when one of them throws before it gathers: %s', async (task, op, message) => {
    const ranks = reports(await startRanks(task, { worldSize, timeoutMs: TIMEOUT_MS, env }));
    const failed = `rank ${worldSize - 1} could not run ${op}: `;
    ranks.forEach(({ right, wrong, error, waitedMs }, rank) => {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toMatch(message);
      expect(error?.includes(failed)).toBe(rank !== worldSize - 1); // which throws its own error
      expect(waitedMs).toBeLessThan(GRACE_MS);
    });
  });

  it('gets an error when one of them brings another shape', async () => {
    const ranks = reports(await startRanks('unequalCalls', { worldSize, timeoutMs: TIMEOUT_MS, env }));
    for (const { right, wrong, error, waitedMs } of ranks) {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toMatch(/\brank \d/);
      expect(error).toMatch(/vocabParallelArgmax/i);
      expect(waitedMs).toBeLessThan(TIMEOUT_MS + GRACE_MS);
    }
  });

  it('gets an error when two of them hold the same id', async () => {
    const ranks = reports(await startRanks('sameIds', { worldSize, timeoutMs: TIMEOUT_MS, env }));
    for (const { right, wrong, error, waitedMs } of ranks) {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toMatch(/vocabParallelArgmax.*vocabStart must give every rank ids of its own/is);
      expect(error).toMatch(lastRank());
      expect(waitedMs).toBeLessThan(GRACE_MS);
    }
  });

  it('gets an error that names a rank which never comes', async () => {
    const ends = await startRanks('untilDeath', { worldSize, started: worldSize - 1, timeoutMs: TIMEOUT_MS, env });
    for (const { right, error, waitedMs } of reports(ends)) {
      expect(right).toBeUndefined(); // the group has not come about
      expect(error).toMatch(lastRank());
      expect(waitedMs).toBeLessThan(TIMEOUT_MS + GRACE_MS);
    }
  });

  it('decodes the tokens of one process in examples/tensor_parallel.ts', () => {
    const { status, stdout, stderr } = runExample('tensor_parallel', ['--processes', String(worldSize)]);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout.match(/\(NCCL, ids [^)]*\): 32 tokens, the same as one process:/g)).toHaveLength(worldSize);
  });
});
