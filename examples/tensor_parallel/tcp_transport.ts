/** A transport for machines without GPUs, within a host or across hosts: every rank sends to rank 0, which answers all. */
import { join } from 'node:path';
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { ShardTransport } from 'tfjs-lm-head';

export interface TcpTransportOptions {
  rank: number;
  worldSize: number;
  /** Where rank 0 listens. */
  host: string;
  port: number;
  /** How long a rank waits for the others. */
  timeoutMs: number;
}

/** What the worker is given; `answers` counts its answers. */
export interface TcpWorkerData extends TcpTransportOptions {
  channel: MessagePort;
  answers: Int32Array;
}

/** The main thread sends numbers to gather, or 'close'. */
export type TcpRequest = Int32Array | 'close';
export type TcpAnswer = Int32Array | { error: string };

/** Time for the worker to say why it has no result, beyond `timeoutMs`. */
const GRACE_MS = 5000;

/**
 * `allGather` must block, and sockets in Node.js do not. So a worker thread owns the sockets, and this thread sleeps until the
 * worker has raised a counter in memory that both share.
 */
export class TcpTransport implements ShardTransport {
  readonly rank: number;
  readonly worldSize: number;
  private readonly channel = new MessageChannel();
  private readonly answers = new Int32Array(new SharedArrayBuffer(4));
  private readonly timeoutMs: number;
  private closed = false;

  /** Returns at once; the first `allGather` waits until all ranks are there. */
  constructor(options: TcpTransportOptions) {
    this.rank = options.rank;
    this.worldSize = options.worldSize;
    this.timeoutMs = options.timeoutMs;
    const channel = this.channel.port2;
    const workerData = { ...options, channel, answers: this.answers };
    const worker = new Worker(join(__dirname, 'tcp_transport_worker.js'), { workerData, transferList: [channel] });
    worker.unref(); // the program may end without `close`
  }

  allGather(mine: Int32Array): Int32Array {
    if (this.closed) throw new Error('this transport has been closed');
    const answer = this.ask(mine, this.timeoutMs + GRACE_MS);
    if ('error' in answer) throw new Error(answer.error);
    return answer;
  }

  /** Tells the other ranks that this one leaves; calling it again does nothing. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.ask('close', GRACE_MS);
  }

  private ask(request: TcpRequest, waitMs: number): TcpAnswer {
    const before = Atomics.load(this.answers, 0);
    this.channel.port1.postMessage(request);
    Atomics.wait(this.answers, 0, before, waitMs);
    const received: { message: TcpAnswer } | undefined = receiveMessageOnPort(this.channel.port1);
    return received?.message ?? { error: `the worker has not answered within ${waitMs} ms` };
  }
}
