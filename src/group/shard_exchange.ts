/** What the ops share that exchange results between the processes which hold the shards of a vocabulary. */
import * as tf from '@tensorflow/tfjs-core';
import type { ShardGroup, ShardTransport } from './shard_group';
import { TensorParallelGroup } from './tensor_parallel_group';
import { checkInteger, describe, fail } from '../common/validate';

/** How the ranks are joined, as an op sees it; undefined where there is nobody to exchange anything with. */
export type Exchange = { handle: number } | { transport: ShardTransport } | undefined;

/** Checks the option `group`. With one rank no exchange takes place. */
export function resolveGroup(op: string, group: ShardGroup | undefined): Exchange {
  if (group === undefined) return undefined;
  if (group instanceof TensorParallelGroup) {
    const handle = group.handleFor(op);
    return handle === 0 ? undefined : { handle };
  }
  const transport = group as Partial<ShardTransport> | null;
  if (typeof transport !== 'object' || typeof transport?.allGather !== 'function') {
    fail(op, 'group', 'be a TensorParallelGroup or {rank, worldSize, allGather}', describe(group));
  }
  checkInteger(op, 'group.worldSize', group.worldSize, 1, 2 ** 31 - 1);
  checkInteger(op, 'group.rank', group.rank, 0, group.worldSize - 1);
  return group.worldSize === 1 ? undefined : { transport: group };
}

/**
 * Runs an op with these options: whatever it throws fails a TensorParallelGroup among them, on all ranks.
 * @param makesTensors whether it makes some beside its result, without an exchange. Where none does, a tidy would only cost
 *     the call microseconds.
 */
export function runInGroup<T extends tf.TensorContainer>(
  op: string,
  options: { group?: ShardGroup },
  makesTensors: boolean,
  run: () => T,
): T {
  const group = (options as { group?: unknown } | null)?.group; // nothing has been checked yet
  const joined = group instanceof TensorParallelGroup;
  try {
    return makesTensors || (group !== undefined && !joined) ? tf.tidy(op, run) : run();
  } catch (error) {
    throw joined ? group.errorOf(op, error as Error) : error;
  }
}

/** What each rank tells the others about its call: all but the ids of the shard has to be the same. */
export interface ShardCall {
  rows: number;
  k: number;
  logSumExp: boolean;
  vocabStart: number;
  /** Of the shard; 0 for a rank that has nothing to offer. */
  vocabSize: number;
}

const HEADER_INTS = 6;
/** Marks an op's header, so that neither another op nor other data passes for it. */
const OPS: Record<string, number> = { vocabParallelArgmax: 0x4c4d4801, lmHeadTopK: 0x4c4d4802 };

/** What a rank has sent. */
export interface Shard {
  vocabSize: number;
  payload: Int32Array;
}

/**
 * Sends `payload`, whose length follows from the call, to all ranks and returns what each has sent, by rank.
 * @throws Error when the transport fails, gives other than it should, or when the ranks' calls do not belong together:
 *     the last is thrown in every rank alike.
 */
export function exchange(op: string, transport: ShardTransport, call: ShardCall, payload: Int32Array): Shard[] {
  const { rows, k, logSumExp, vocabStart, vocabSize } = call;
  const mine = new Int32Array(HEADER_INTS + payload.length);
  mine.set([OPS[op], rows, k, Number(logSumExp), vocabStart, vocabSize]);
  mine.set(payload, HEADER_INTS);
  const all = gather(op, transport, mine);
  const parts = Array.from({ length: transport.worldSize }, (_, rank) =>
    all.subarray(rank * mine.length, (rank + 1) * mine.length),
  );
  const expected = callText(mine);
  parts.forEach((part, rank) => {
    if (callText(part) !== expected) {
      fail(op, 'group', `see the same call from every rank (${expected})`, `${callText(part)} from rank ${rank}`);
    }
  });
  const shards = parts.map((part, rank) => ({ rank, start: part[4], size: part[5] }));
  checkShards(op, shards);
  return parts.map((part) => ({ vocabSize: part[5], payload: part.subarray(HEADER_INTS) }));
}

function gather(op: string, transport: ShardTransport, mine: Int32Array): Int32Array {
  let all: unknown;
  try {
    all = transport.allGather(mine);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new Error(`Error in ${op}: allGather failed in rank ${transport.rank}: ${message}`, { cause: error });
  }
  // Not instanceof: an array may come from another realm.
  if (Object.prototype.toString.call(all) !== '[object Int32Array]') {
    fail(op, 'group.allGather', 'return an Int32Array', describe(all));
  }
  const { length } = all as Int32Array;
  if (length !== transport.worldSize * mine.length) {
    const expected = `return ${transport.worldSize} x ${mine.length} numbers, by rank`;
    fail(op, 'group.allGather', expected, `${length} (do all ranks make the same call?)`);
  }
  return all as Int32Array;
}

function callText([mark, rows, k, logSumExp]: Int32Array): string {
  const op = Object.keys(OPS).find((name) => OPS[name] === mark);
  if (op === undefined) return 'no call';
  return op === 'lmHeadTopK' ? `${op}, ${rows} rows, k ${k}${logSumExp ? ', logSumExp' : ''}` : `${op}, ${rows} rows`;
}

/** An id that two ranks hold would be counted twice: most likely one of them has forgotten its vocabStart. */
function checkShards(op: string, shards: { rank: number; start: number; size: number }[]): void {
  const present = shards.filter(({ size }) => size > 0).sort((a, b) => a.start - b.start);
  if (present.length === 0) fail(op, 'group', 'hold at least one id of the vocabulary', 'none in any rank');
  const text = ({ rank, start, size }: (typeof shards)[number]) => `[${start}, ${start + size}) in rank ${rank}`;
  for (let i = 1; i < present.length; i++) {
    const [before, after] = [present[i - 1], present[i]];
    if (after.start < before.start + before.size) {
      fail(op, 'vocabStart', 'give every rank ids of its own', `${text(before)} and ${text(after)}`);
    }
  }
}
