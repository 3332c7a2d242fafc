/** Four processes on the CPU, joined over the transport of examples/. test/gpus/ has the same over NCCL. */
import type { RankEnd } from '../start_ranks';
import { cpu, CPU_STEPS, startRanks } from '../start_ranks';

const WORLD_SIZE = 4;

/** Reports of processes that have ended well. */
function reports(ends: RankEnd[]) {
  for (const end of ends) expect(end).toMatchObject({ code: 0, report: { device: 'cpu' } });
  return ends.map(({ report }) => report);
}

describe('four processes', () => {
  it('get the token of the whole in 3,000 steps in which the winner moves between them', async () => {
    const ranks = reports(await startRanks('argmaxSteps', { worldSize: WORLD_SIZE, timeoutMs: 30000 }));
    for (const { right, wrong, digest } of ranks) {
      expect({ right, wrong, digest }).toEqual({ right: CPU_STEPS, wrong: undefined, digest: ranks[0].digest });
    }
  });

  it('get the top k of one process bit for bit, in every format', async () => {
    const ranks = reports(await startRanks('topKBits', { worldSize: WORLD_SIZE, timeoutMs: 30000 }));
    for (const { right, wrong, digest } of ranks) {
      expect({ right, wrong, digest }).toEqual({ right: 3 * 4 * 5, wrong: undefined, digest: ranks[0].digest });
    }
  });

  it('get an error that names a rank which was killed', async () => {
    const ends = await startRanks('untilDeath', { worldSize: WORLD_SIZE, timeoutMs: 10000 });
    expect(ends[3]).toMatchObject({ code: null, signal: 'SIGKILL' });
    for (const { right, wrong, error, waitedMs } of reports(ends.slice(0, 3))) {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toMatch(/^Error in vocabParallelArgmax: allGather failed in rank \d: rank 3 has left$/);
      expect(waitedMs).toBeLessThan(10000);
    }
  });

  it('get an error that names a rank which has exited, and that keeps its code', async () => {
    const env = () => ({ ...cpu(), LEAVE: 'process.exit' });
    const ends = await startRanks('untilExit', { worldSize: WORLD_SIZE, timeoutMs: 10000, env });
    expect(ends[3]).toMatchObject({ code: 7, signal: null });
    for (const { right, wrong, error } of reports(ends.slice(0, 3))) {
      expect({ right, wrong }).toEqual({ right: 80, wrong: undefined });
      expect(error).toMatch(/^Error in vocabParallelArgmax: allGather failed in rank \d: rank 3 has left$/);
    }
  });

  it('get an error when one of them brings another shape', async () => {
    const ranks = reports(await startRanks('unequalCalls', { worldSize: WORLD_SIZE, timeoutMs: 10000 }));
    for (const { right, wrong, error } of ranks) {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toMatch(
        /^Error in vocabParallelArgmax: .*rank 3 makes another call than rank 0: it sends 54 numbers/,
      );
    }
  });

  it('get an error when two of them hold the same id', async () => {
    const ranks = reports(await startRanks('sameIds', { worldSize: WORLD_SIZE, timeoutMs: 10000 }));
    for (const { right, wrong, error } of ranks) {
      expect({ right, wrong }).toEqual({ right: 50, wrong: undefined });
      expect(error).toBe(
        "Error in vocabParallelArgmax: argument 'vocabStart' must give every rank ids of its own, but got " +
          '[200, 300) in rank 2 and [299, 399) in rank 3.',
      );
    }
  });

  it('get an error that names a rank which never comes', async () => {
    const ends = await startRanks('untilDeath', { worldSize: WORLD_SIZE, started: 3, timeoutMs: 3000 });
    for (const { right, error, waitedMs } of reports(ends)) {
      expect(right).toBe(0);
      expect(error).toMatch(/^Error in vocabParallelArgmax: .*rank 3 has not come within 3000 ms$/);
      expect(waitedMs).toBeLessThan(8000);
    }
  });
});
