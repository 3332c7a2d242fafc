import * as tf from '@tensorflow/tfjs-core';
import type { Native } from '../native/load';
import { loadNative } from '../native/load';
import { usesGpu } from '../native/uses_gpu';
import { checkInteger, checkOptions, describe, fail } from '../common/validate';

export interface TensorParallelGroupOptions {
  /** Number of this process, from 0 on. */
  rank: number;
  /** How many processes there are. */
  worldSize: number;
  /** 'host:port' at which rank 0 can be reached by all; not needed, and not looked at, when worldSize is 1. */
  address?: string;
  /** How long any rank waits for another, at the start and in each op, in milliseconds. Default 60000. */
  timeoutMs?: number;
}

const DEFAULT_TIMEOUT_MS = 60000;
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Processes that share a vocabulary, one a GPU, joined by NCCL within a host and across hosts. Give it as `group` to
 * `vocabParallelArgmax` and `lmHeadTopK`; every rank then has to make the same calls in the same order.
 *
 * ```js
 * const group = TensorParallelGroup.fromEnv();     // started by torchrun, srun, mpirun, ...
 * const {rank, worldSize} = group;
 * const head = LmHead.shard(weight, {rank, worldSize, format: 'bfloat16'});
 * const {values, indices} = lmHeadTopK(hidden, head, 50, {group});
 * group.close();
 * ```
 *
 * A rank that never comes, dies, or calls with other shapes ends in an error that names rank and op in all others, within
 * `timeoutMs`. The group cannot be used after that. An op only enqueues its work on the GPU, so the error may be that of the
 * next op; what the failed one returns are ids of -1 and values of NaN, and `group.error` says why.
 *
 * An op that throws fails the group of all ranks at once, whatever the reason, be it a GPU without memory or an argument out
 * of range: its rank has not made the call that the others are in, and its next one would be taken for it. So check what comes
 * from outside before the call.
 *
 * Close the group before the program ends. Where it ends with an open one, by `process.exit` or an error too, steps that the
 * others still wait for are lost, and they get an error that names this rank.
 *
 * While the ranks come together, rank 0 listens at its port without asking who calls: it belongs in a network that you trust.
 *
 * With worldSize 1 there is nobody to wait for: neither NCCL nor a GPU is needed.
 */
export class TensorParallelGroup {
  private closed = false;

  private constructor(
    readonly rank: number,
    readonly worldSize: number,
    /** Missing with one rank. */
    private readonly joined?: { native: Native; handle: number },
  ) {}

  /**
   * Joins the group and waits until all ranks have.
   * @param options `rank`, `worldSize`, `address` 'host:port' of rank 0 (an IPv6 host in brackets), `timeoutMs` (default
   *     60000).
   * @throws Error on an option out of range or unknown, when this process does not compute on an NVIDIA GPU, when NCCL is
   *     missing, and when a rank does not come within `timeoutMs`.
   */
  static create(options: TensorParallelGroupOptions): TensorParallelGroup {
    const op = 'TensorParallelGroup.create';
    checkOptions(op, options, ['rank', 'worldSize', 'address', 'timeoutMs']);
    const { rank, worldSize, address, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    checkInteger(op, 'worldSize', worldSize, 1, 2 ** 31 - 1);
    checkInteger(op, 'rank', rank, 0, worldSize - 1);
    checkInteger(op, 'timeoutMs', timeoutMs, 1, MAX_TIMEOUT_MS);
    if (worldSize === 1) return new TensorParallelGroup(rank, worldSize);
    const [host, port] = parseAddress(op, address);
    return TensorParallelGroup.join(op, rank, worldSize, host, port, timeoutMs);
  }

  /**
   * `create` from the variables that torchrun sets, and wrappers around srun and mpirun: RANK, WORLD_SIZE, MASTER_ADDR and
   * MASTER_PORT. With WORLD_SIZE 1 the last two are not needed. Under torchrun MASTER_PORT belongs to torchrun's own store
   * (TORCHELASTIC_USE_AGENT_STORE is True), so the group uses the port after it.
   *
   * LOCAL_RANK is not read here. It is for choosing the GPU: set CUDA_VISIBLE_DEVICES to it before tfjs is loaded.
   * @param options `timeoutMs` (default 60000).
   * @throws Error that names a variable which is missing or out of range, and as `create` does.
   */
  static fromEnv(options: Pick<TensorParallelGroupOptions, 'timeoutMs'> = {}): TensorParallelGroup {
    const op = 'TensorParallelGroup.fromEnv';
    checkOptions(op, options, ['timeoutMs']);
    const { timeoutMs = DEFAULT_TIMEOUT_MS } = options;
    checkInteger(op, 'timeoutMs', timeoutMs, 1, MAX_TIMEOUT_MS);
    const worldSize = integerFromEnv(op, 'WORLD_SIZE', 1, 2 ** 31 - 1);
    const rank = integerFromEnv(op, 'RANK', 0, worldSize - 1);
    if (worldSize === 1) return new TensorParallelGroup(rank, worldSize);
    const host = process.env['MASTER_ADDR'];
    if (host === undefined || host === '') failVariable(op, 'MASTER_ADDR', 'name the host of rank 0', host);
    const taken = process.env['TORCHELASTIC_USE_AGENT_STORE'] === 'True' ? 1 : 0;
    const port = taken + integerFromEnv(op, 'MASTER_PORT', 1, 65535 - taken);
    return TensorParallelGroup.join(op, rank, worldSize, host, port, timeoutMs);
  }

  /** Leaves the group; calling it again does nothing. Ops that are given a closed group throw. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.joined?.native.closeTensorParallelGroup(this.joined.handle);
  }

  /** `close`, for `using group = TensorParallelGroup.fromEnv()`. */
  [Symbol.dispose](): void {
    this.close();
  }

  get isClosed(): boolean {
    return this.closed;
  }

  /** Why the group has failed, or undefined while it is well. */
  get error(): string | undefined {
    if (this.closed || this.joined === undefined) return undefined;
    return this.joined.native.tensorParallelGroupError(this.joined.handle) || undefined;
  }

  /**
   * The number by which native ops know this group, and throw when it has failed; for the ops of this package. 0 with one rank.
   * @throws Error when the group is closed, or when the active backend does not run on a GPU.
   */
  handleFor(op: string): number {
    if (this.closed) fail(op, 'group', 'be a group that is open', 'one that has been closed');
    if (this.joined === undefined) return 0;
    requireGpu(op);
    return this.joined.handle;
  }

  /** Fails the group, if it has not failed yet, for `cause` has ended an op; returns what the op should throw. */
  errorOf(op: string, cause: Error): Error {
    if (this.closed || this.joined === undefined) return cause;
    const { error } = this;
    if (error !== undefined) {
      return new Error(`Error in ${op}: the group has failed and can only be closed: ${error}`, { cause });
    }
    const { native, handle } = this.joined;
    native.failTensorParallelGroup(handle, `rank ${this.rank} could not run ${op}: ${cause.message}`);
    return cause;
  }

  private static join(
    op: string,
    rank: number,
    worldSize: number,
    host: string,
    port: number,
    timeoutMs: number,
  ): TensorParallelGroup {
    requireGpu(op);
    const native = loadNative();
    if (!native.cudaKernels()) {
      throw new Error(`Error in ${op}: the kernels were built without CUDA: run 'npx tfjs-lm-head setup --cuda'.`);
    }
    try {
      const handle = native.openTensorParallelGroup(rank, worldSize, host, port, timeoutMs);
      return new TensorParallelGroup(rank, worldSize, { native, handle });
    } catch (error) {
      throw new Error(`Error in ${op}: ${(error as Error).message}`, { cause: error });
    }
  }
}

function requireGpu(op: string): void {
  if (usesGpu()) return;
  throw new Error(
    `Error in ${op}: NCCL needs a GPU in every process, but this one computes on the CPU (backend '${tf.getBackend()}'). ` +
      "On CPUs give the ops a transport of your own as 'group': {rank, worldSize, allGather}.",
  );
}

function parseAddress(op: string, address: unknown): [host: string, port: number] {
  const [, ipv6, name, port] = (typeof address === 'string' && /^(?:\[(.+)\]|([^:]+)):(\d+)$/.exec(address)) || [];
  if (port === undefined || Number(port) < 1 || Number(port) > 65535) {
    fail(op, 'address', "be 'host:port' of rank 0, with a port in [1, 65535]", describe(address));
  }
  return [ipv6 ?? name, Number(port)];
}

function integerFromEnv(op: string, name: string, low: number, high: number): number {
  const text = process.env[name];
  const value = text !== undefined && /^\d+$/.test(text) ? Number(text) : NaN;
  if (!(value >= low && value <= high)) failVariable(op, name, `be an integer in [${low}, ${high}]`, text);
  return value;
}

function failVariable(op: string, name: string, expected: string, text: string | undefined): never {
  const actual = text === undefined ? 'it is not set' : `got '${text}'`;
  throw new Error(`Error in ${op}: environment variable ${name} must ${expected}, but ${actual}.`);
}
