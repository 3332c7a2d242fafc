import type { TensorParallelGroup } from './tensor_parallel_group';

/**
 * A way of your own to exchange numbers between the processes that hold the shards: by MPI, shared memory, sockets, or
 * within one process for a test. Any object with these three members will do, and it works on every backend.
 */
export interface ShardTransport {
  /** Number of this process among those that share the vocabulary, from 0 on. */
  readonly rank: number;
  /** How many processes there are. */
  readonly worldSize: number;
  /**
   * Gives every rank the numbers of all: `worldSize` times as many as `mine`, by rank, this rank's own among them. It blocks
   * until all ranks have called it, or throws. Ranks that make different calls may bring different lengths: it should
   * throw then, and likewise when a rank does not come in time. Neither array is kept or written to afterwards.
   */
  allGather(mine: Int32Array): Int32Array;
}

/** Processes that hold a shard of the vocabulary each: over NCCL, or over a transport of your own. */
export type ShardGroup = TensorParallelGroup | ShardTransport;
