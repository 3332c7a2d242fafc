/** Several ranks within this process: an op of this package exchanges once a call, and that is what makes it possible. */
import type { ShardTransport } from 'tfjs-lm-head';

/** What a rank throws to get out of a call whose numbers are not all known yet. */
class Recorded extends Error {}

/**
 * Results of `call` in each of `worldSize` ranks. The first time round every rank gives what it sends and is stopped; the
 * second time each gets the numbers of all. A call that exchanges nothing is not repeated.
 */
export function inAllRanks<T>(worldSize: number, call: (transport: ShardTransport) => T): T[] {
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank);
  const sent: Int32Array[] = [];
  const record = (rank: number): T | undefined => {
    try {
      const allGather = (mine: Int32Array): never => {
        sent[rank] = mine.slice();
        throw new Recorded();
      };
      return call({ rank, worldSize, allGather });
    } catch (error) {
      if (!((error as Error).cause instanceof Recorded)) throw error;
      return undefined;
    }
  };
  const first = ranks.map(record);
  if (sent.length === 0) return first as T[];
  return ranks.map((rank) => {
    const allGather = (mine: Int32Array) => {
      if (!mine.every((n, i) => n === sent[rank][i])) throw new Error(`rank ${rank} sends other numbers now`);
      const all = new Int32Array(worldSize * mine.length);
      sent.forEach((numbers, other) => all.set(numbers, other * mine.length));
      return all;
    };
    return call({ rank, worldSize, allGather });
  });
}
