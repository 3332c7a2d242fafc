/** What a rank prints. */
export interface RankReport {
  device: string;
  gpus?: number;
  /** Calls that gave what they should. */
  right?: number;
  /** The first call that did not. */
  wrong?: string;
  /** All that was returned, in short: the same in every rank. */
  digest?: string;
  ms?: number;
  /** It ends without closing the group. */
  leavesOpen?: true;
  /** Of what was thrown. */
  error?: string;
  /** From the call to its error. */
  waitedMs?: number;
}
