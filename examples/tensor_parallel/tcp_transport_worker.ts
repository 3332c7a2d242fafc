/** The thread of `TcpTransport` that owns the sockets. */
import { createServer, connect, isIP, type Socket } from 'node:net';
import { workerData, type MessagePort } from 'node:worker_threads';
import type { TcpAnswer, TcpRequest, TcpWorkerData } from './tcp_transport';

const { rank, worldSize, host, port, timeoutMs, answers } = workerData as TcpWorkerData;
const channel = (workerData as { channel: MessagePort }).channel;

/** Whether the main thread sleeps until it gets an answer. */
let asked = false;
let failure: string | undefined;

function answer(message: TcpAnswer): void {
  asked = false;
  channel.postMessage(message);
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
}

/** Every `allGather` fails from now on: after one that failed, the ranks may be at different calls. */
function fail(reason: string): void {
  failure ??= reason;
  if (asked) answer({ error: failure });
}

/**
 * A frame is an int32 n and then n int32 numbers, or, if n is negative, -n bytes of text: an error of rank 0. The ranks have
 * the same byte order.
 */
function frame(numbers: Int32Array): Buffer {
  const bytes = Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  return Buffer.concat([Buffer.from(Int32Array.of(numbers.length).buffer), bytes]);
}

function errorFrame(text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from(Int32Array.of(-bytes.length).buffer), bytes]);
}

/** Calls `onFrame` with each frame of a socket, whatever pieces it comes in. */
function readFrames(socket: Socket, onFrame: (frame: Int32Array | string) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on('data', (piece) => {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    while (rest.length >= 4) {
      const n = rest.readInt32LE(0);
      const end = 4 + (n < 0 ? -n : 4 * n);
      if (rest.length < end) return;
      const body = Uint8Array.from(rest.subarray(4, end)); // a copy, which starts at a multiple of 4
      rest = rest.subarray(end);
      onFrame(n < 0 ? Buffer.from(body).toString() : new Int32Array(body.buffer));
    }
  });
}

/** Rank 0: collects the numbers of all ranks, and sends them to all. */
function serve(): { gather: (mine: Int32Array) => void; close: (done: () => void) => void } {
  const sockets: (Socket | undefined)[] = [];
  const waiting = Array.from({ length: worldSize }, (): Int32Array[] => []);
  const left = new Set<number>();
  let timer: NodeJS.Timeout | undefined;

  const failAll = (reason: string) => {
    clearTimeout(timer);
    for (const socket of sockets) socket?.end(errorFrame(reason));
    fail(reason);
  };
  const missing = () => waiting.flatMap((queue, other) => (queue.length === 0 ? [other] : []));
  const offer = (from: number, numbers: Int32Array) => {
    waiting[from].push(numbers);
    advance();
  };
  const advance = () => {
    const absent = missing();
    if (failure !== undefined || absent.length === worldSize) return;
    const gone = absent.find((other) => left.has(other));
    if (gone !== undefined) return failAll(`rank ${gone} has left`);
    if (absent.length > 0) {
      timer ??= setTimeout(() => {
        failAll(`rank ${missing().join(', rank ')} has not come within ${timeoutMs} ms`);
      }, timeoutMs);
      return;
    }
    clearTimeout(timer);
    timer = undefined;
    const parts = waiting.map((queue) => queue.shift() as Int32Array);
    const other = parts.findIndex((part) => part.length !== parts[0].length);
    if (other > 0) {
      const lengths = `${parts[other].length} numbers, rank 0 ${parts[0].length}`;
      return failAll(`rank ${other} makes another call than rank 0: it sends ${lengths}`);
    }
    const all = new Int32Array(worldSize * parts[0].length);
    parts.forEach((part, from) => all.set(part, from * part.length));
    const bytes = frame(all);
    for (const socket of sockets) socket?.write(bytes);
    if (asked) answer(all);
    advance(); // a rank may already have sent its next
  };

  const server = createServer({ noDelay: true }, (socket) => {
    let from: number | undefined;
    readFrames(socket, (numbers) => {
      if (typeof numbers === 'string') return socket.destroy();
      if (from !== undefined) return offer(from, numbers);
      const [other, size] = numbers; // the first frame says who it is
      if (!(other > 0 && other < worldSize) || sockets[other] !== undefined || size !== worldSize) {
        socket.end(errorFrame(`rank 0 of ${worldSize} does not expect rank ${other} of ${size}`));
        return;
      }
      from = other;
      sockets[other] = socket;
    });
    socket.on('error', () => undefined); // 'close' follows
    socket.on('close', () => {
      if (from === undefined) return;
      left.add(from);
      advance();
    });
  });
  server.on('error', (error) => fail(`rank 0 cannot listen at ${host}:${port}: ${error.message}`));
  // A name may mean another address here than elsewhere (often 127.0.1.1).
  server.listen(port, isIP(host) !== 0 || host === 'localhost' ? host : undefined);
  return {
    gather: (mine) => offer(0, mine),
    close: (done) => {
      const open = sockets.filter((socket) => socket !== undefined && !socket.destroyed) as Socket[];
      let rest = open.length;
      if (rest === 0) done();
      for (const socket of open) socket.end(() => --rest === 0 && done());
      server.close();
    },
  };
}

/** Any other rank: sends its numbers to rank 0, and gets those of all. */
function join(): { gather: (mine: Int32Array) => void; close: (done: () => void) => void } {
  const end = Date.now() + timeoutMs;
  const unsent: Buffer[] = [frame(Int32Array.of(rank, worldSize))];
  let socket: Socket | undefined;
  let timer: NodeJS.Timeout | undefined;

  const tryToConnect = () => {
    const candidate = connect({ host, port, noDelay: true });
    candidate.on('connect', () => {
      const { localAddress, localPort, remoteAddress } = candidate;
      // Where nobody listens yet, TCP can give a socket this very port and join it to itself.
      if (localPort === port && localAddress === remoteAddress) return void candidate.destroy();
      socket = candidate;
      for (const bytes of unsent) socket.write(bytes);
    });
    readFrames(candidate, (numbers) => {
      clearTimeout(timer);
      if (typeof numbers === 'string') fail(numbers);
      else if (asked) answer(numbers);
    });
    candidate.on('error', () => undefined); // 'close' follows
    candidate.on('close', () => {
      if (socket !== undefined) fail('rank 0 has left');
      else if (Date.now() < end)
        setTimeout(tryToConnect, 20); // rank 0 may not have started yet
      else fail(`rank 0 cannot be reached at ${host}:${port}`);
    });
  };
  tryToConnect();
  return {
    gather: (mine) => {
      // Rank 0 knows better who is missing, so it gets the chance to say so.
      timer = setTimeout(() => fail(`rank 0 has not answered within ${timeoutMs} ms`), timeoutMs + 1000);
      if (socket === undefined) unsent.push(frame(mine));
      else socket.write(frame(mine));
    },
    close: (done) => (socket === undefined || socket.destroyed ? done() : socket.end(done)),
  };
}

const { gather, close } = rank === 0 ? serve() : join();
channel.on('message', (request: TcpRequest) => {
  asked = true;
  if (request === 'close') close(() => answer(new Int32Array(0)));
  else if (failure !== undefined) answer({ error: failure });
  else gather(request);
});
