/** Several ranks within this process: a call is repeated, each time knowing the numbers of one exchange more. */
import type { ShardTransport } from 'tfjs-lm-head';

/** What a rank throws to get out of a call whose numbers are not all known yet. */
class Recorded extends Error {}

/**
 * Results of `call` in each of `worldSize` ranks. The first time round every rank gives what it sends first and is stopped;
 * the next time each gets those numbers of all and is stopped where it sends the next, and so on, until none sends more.
 */
export function inAllRanks<T>(worldSize: number, call: (transport: ShardTransport) => T): T[] {
  const ranks = Array.from({ length: worldSize }, (_, rank) => rank);
  /** By exchange, then by rank. */
  const known: Int32Array[][] = [];
  for (;;) {
    const sent: Int32Array[] = [];
    const results = ranks.map((rank) => callKnowing(known, sent, rank, worldSize, call));
    if (sent.length === 0) return results as T[];
    if (ranks.some((rank) => sent[rank] === undefined)) throw new Error('some ranks exchange more than others');
    known.push(sent);
  }
}

/** One rank's call; undefined where it goes on to send numbers that are not known, which go to `sent`. */
function callKnowing<T>(
  known: readonly Int32Array[][],
  sent: Int32Array[],
  rank: number,
  worldSize: number,
  call: (transport: ShardTransport) => T,
): T | undefined {
  let exchanges = 0;
  const allGather = (mine: Int32Array): Int32Array => {
    const ofAll = known[exchanges++];
    if (ofAll === undefined) {
      sent[rank] = mine.slice();
      throw new Recorded();
    }
    const before = ofAll[rank];
    if (mine.length !== before.length || !mine.every((n, i) => n === before[i])) {
      throw new Error(`rank ${rank} sends other numbers now`);
    }
    const all = new Int32Array(worldSize * mine.length);
    ofAll.forEach((numbers, other) => all.set(numbers, other * mine.length));
    return all;
  };
  try {
    return call({ rank, worldSize, allGather });
  } catch (error) {
    if (!((error as Error).cause instanceof Recorded)) throw error;
    return undefined;
  }
}
