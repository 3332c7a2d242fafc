/** What a rank sends of each row in a vocab-parallel argmax: the best of each slice of its columns. */
import { EMPTY_ID, EMPTY_KEY, isBetter } from './order';

/** Slices of a row, each with a candidate of its own. */
export const CANDIDATE_SLICES = 8;
/** Integers of a row: each candidate is a pair (order-preserving key, id). */
export const CANDIDATE_WIDTH = 2 * CANDIDATE_SLICES;

/** A best-so-far that starts below every candidate. */
export class Best {
  key = EMPTY_KEY;
  id = EMPTY_ID;

  offer(key: number, id: number): void {
    if (isBetter(key, id, this.key, this.id)) [this.key, this.id] = [key, id];
  }

  /** Offers the candidates of a row, which begins at `start`. */
  offerRow(candidates: ArrayLike<number>, start: number): void {
    for (let i = start; i < start + CANDIDATE_WIDTH; i += 2) this.offer(candidates[i], candidates[i + 1]);
  }
}
