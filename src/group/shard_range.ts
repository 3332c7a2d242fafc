import { checkInteger } from '../common/validate';

export interface ShardRangeOptions {
  /** Number of this process among those that share the vocabulary, from 0 on. */
  rank: number;
  /** How many processes there are. */
  worldSize: number;
  /** The padded vocabulary is a multiple of this, and of worldSize. Default 64. */
  multipleOf?: number;
}

/** Ids from `begin` up to, but not including, `end`. */
export interface ShardRange {
  begin: number;
  end: number;
}

const MOST = 2 ** 31 - 1;

/** See `LmHead.shardRange`. */
export function shardRange(op: string, vocabSize: number, options: ShardRangeOptions): ShardRange {
  const { rank, worldSize, multipleOf = 64 } = options;
  checkInteger(op, 'vocabSize', vocabSize, 1, MOST);
  checkInteger(op, 'worldSize', worldSize, 1, MOST);
  checkInteger(op, 'rank', rank, 0, worldSize - 1);
  checkInteger(op, 'multipleOf', multipleOf, 1, MOST);
  // slice * worldSize is the least common multiple of both sizes, as often as it takes.
  const unit = multipleOf / greatestCommonDivisor(multipleOf, worldSize);
  const slice = unit * Math.ceil(vocabSize / (unit * worldSize));
  return { begin: Math.min(vocabSize, rank * slice), end: Math.min(vocabSize, (rank + 1) * slice) };
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}
