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
  /** int32, as many as the op's text in OPS takes. */
  details: readonly number[];
  vocabStart: number;
  /** Of the shard; 0 for a rank that has nothing to offer. */
  vocabSize: number;
}

/** How a header tells of an op: [mark, rows, ...details, vocabStart, vocabSize]. */
interface OpHeader {
  /** So that neither another op nor other data passes for it. */
  mark: number;
  /** What errors say of the details. */
  text(...details: number[]): string;
}

const OPS: Record<string, OpHeader> = {
  vocabParallelArgmax: { mark: 0x4c4d4801, text: () => '' },
  lmHeadTopK: { mark: 0x4c4d4802, text: (k, logSumExp) => `, k ${k}${logSumExp ? ', logSumExp' : ''}` },
  lmHeadScores: { mark: 0x4c4d4803, text: (n) => `, ${n} ids a row` },
  lmHeadLogProbs: { mark: 0x4c4d4804, text: (n, part) => `, ${n} ids a row, ${part === 0 ? 'scores' : 'ranks'}` },
  lmHeadSample: { mark: 0x4c4d4805, text: (...words) => drawText(words) },
  lmHeadVerify: { mark: 0x4c4d4806, text: (...words) => drawText(words) },
};

function drawText([seedLow, seedHigh, stepLow, stepHigh]: number[]): string {
  const whole = (low: number, high: number) => high * 2 ** 32 + (low >>> 0);
  return `, seed ${whole(seedLow, seedHigh)}, step ${whole(stepLow, stepHigh)}`;
}

/** What a rank has sent. */
export interface Shard {
  vocabStart: number;
  vocabSize: number;
  payload: Int32Array;
}

/**
 * Sends `payload`, whose length follows from the call, to all ranks and returns what each has sent, by rank.
 * @throws Error when the transport fails, gives other than it should, or when the ranks' calls do not belong together:
 *     the last is thrown in every rank alike.
 */
export function exchange(op: string, transport: ShardTransport, call: ShardCall, payload: Int32Array): Shard[] {
  const { rows, details, vocabStart, vocabSize } = call;
  const header = [OPS[op].mark, rows, ...details, vocabStart, vocabSize];
  const mine = new Int32Array(header.length + payload.length);
  mine.set(header);
  mine.set(payload, header.length);
  const all = gather(op, transport, mine);
  const parts = Array.from({ length: transport.worldSize }, (_, rank) =>
    all.subarray(rank * mine.length, (rank + 1) * mine.length),
  );
  const common = header.length - 2;
  const expected = callText(mine.subarray(0, common));
  parts.forEach((part, rank) => {
    const actual = callText(part.subarray(0, common));
    if (actual !== expected) {
      fail(op, 'group', `see the same call from every rank (${expected})`, `${actual} from rank ${rank}`);
    }
  });
  const shards = parts.map((part) => {
    return { vocabStart: part[common], vocabSize: part[common + 1], payload: part.subarray(header.length) };
  });
  checkShards(op, shards);
  return shards;
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

function callText([mark, rows, ...details]: Int32Array): string {
  const op = Object.keys(OPS).find((name) => OPS[name].mark === mark);
  return op === undefined ? 'no call' : `${op}, ${rows} rows${OPS[op].text(...details)}`;
}

/** An id that two ranks hold would be counted twice: most likely one of them has forgotten its vocabStart. */
function checkShards(op: string, shards: readonly Shard[]): void {
  const present = shards
    .map(({ vocabStart: start, vocabSize: size }, rank) => ({ rank, start, size }))
    .filter(({ size }) => size > 0)
    .sort((a, b) => a.start - b.start);
  if (present.length === 0) fail(op, 'group', 'hold at least one id of the vocabulary', 'none in any rank');
  const text = ({ rank, start, size }: (typeof present)[number]) => `[${start}, ${start + size}) in rank ${rank}`;
  for (let i = 1; i < present.length; i++) {
    const [before, after] = [present[i - 1], present[i]];
    if (after.start < before.start + before.size) {
      fail(op, 'vocabStart', 'give every rank ids of its own', `${text(before)} and ${text(after)}`);
    }
  }
}
