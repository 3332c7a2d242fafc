/** How the ranks of a TensorParallelGroup find each other, agree on an op, and notice that one is lost; without a GPU. */
import { connect } from 'node:net';
import { freePort } from '../../examples/tensor_parallel/free_port';
import { NativeProgram } from './native_program';

const TIMEOUT_MS = 2000;
/** Beyond the timeout, on a machine that has other things to do. */
const GRACE_MS = 4000;

let ranks: NativeProgram[] = [];
let host: string;
let port: number;

beforeEach(async () => {
  ranks = [];
  host = '127.0.0.1';
  port = await freePort();
});
afterEach(async () => {
  for (const rank of ranks) rank.process.kill('SIGKILL');
  await Promise.all(ranks.map((rank) => rank.ended));
});

function start(rank: number, worldSize: number, device?: string, timeoutMs = TIMEOUT_MS): NativeProgram {
  const args = [rank, worldSize, host, port, timeoutMs].map(String);
  const program = new NativeProgram('control_channel_test', device === undefined ? args : [...args, device]);
  ranks.push(program);
  return program;
}

async function open(worldSize: number, timeoutMs?: number): Promise<NativeProgram[]> {
  for (let rank = 0; rank < worldSize; rank++) start(rank, worldSize, undefined, timeoutMs);
  expect(await answers()).toEqual(ranks.map(() => 'open'));
  return ranks;
}

/** The next line of each. */
const answers = (of = ranks) => Promise.all(of.map((rank) => rank.next()));
const sayAll = (line: string) => ranks.forEach((rank) => rank.say(line));

/** That each prints one line within the timeout which matches. */
async function expectAll(of: NativeProgram[], pattern: RegExp, mostMs = TIMEOUT_MS + GRACE_MS): Promise<void> {
  const began = Date.now();
  for (const line of await answers(of)) expect(line).toMatch(pattern);
  expect(Date.now() - began).toBeLessThan(mostMs);
}

/** What a process that is no rank is sent until rank 0 ends its connection. */
function endOfStranger(bytes: Buffer | string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    let received = '';
    let connected = false;
    socket.on('connect', () => {
      connected = true;
      socket.write(bytes);
    });
    socket.on('data', (piece) => (received += piece.toString()));
    socket.on('error', () => undefined); // 'close' follows
    socket.on('close', () => {
      if (connected) resolve(received);
      else setTimeout(() => void endOfStranger(bytes).then(resolve), 50); // rank 0 does not listen yet
    });
  });
}

describe('a control channel', () => {
  it.each([2, 4])('joins %d ranks, counts their steps, and ends', async (worldSize) => {
    await open(worldSize);
    for (const [op, step] of [
      ['a 64', 1],
      ['a 64', 2],
      ['b 128', 3],
      ['a 64', 4],
    ] as const) {
      sayAll(`step ${op}`);
      expect(await answers()).toEqual(ranks.map(() => `done ${step}`));
    }
    sayAll('close');
    for (const rank of ranks) {
      // One that is slower than another hears first that the group has ended.
      let line = await rank.next();
      while (line !== undefined && /^failed rank \d has closed the group$/.test(line)) line = await rank.next();
      expect(line).toBe('closed');
    }
    for (const { ended } of ranks) expect(await ended).toEqual({ code: 0, signal: null });
  });

  it('joins ranks at a name', async () => {
    host = 'localhost';
    await open(2);
  });

  it('listens everywhere where the address of rank 0 is not one of its machine', async () => {
    host = '192.0.2.1'; // nobody has it: it is for documentation
    start(0, 2);
    host = '127.0.0.1';
    start(1, 2);
    expect(await answers()).toEqual(['open', 'open']);
  });

  it('joins its ranks though strangers come to its port', async () => {
    const frame = (text: string) => {
      const bytes = Buffer.alloc(44 + text.length); // its length, type 0, rank 1, step 2, three numbers, and the text
      bytes.writeInt32LE(bytes.length - 4);
      bytes.writeInt32LE(1, 8);
      bytes.writeInt32LE(2, 12);
      bytes.write(text, 44);
      return bytes;
    };
    start(0, 2);
    const frames = [
      frame('GET /'),
      frame('tfjs-lm-head group 1'),
      frame('tfjs-lm-head group 2\n'),
      'GET / HTTP/1.1\r\nHost: rank0\r\n\r\n',
    ];
    const ends = await Promise.all(frames.map((bytes) => endOfStranger(bytes)));
    expect(ends).toEqual(frames.map(() => ''));
    start(1, 2);
    expect(await answers()).toEqual(['open', 'open']);
  });

  it('tells all that came which rank never did', async () => {
    for (const rank of [0, 1, 3]) start(rank, 4);
    await expectAll(ranks, /^error rank 2 of 4 did not come to 127\.0\.0\.1:\d+ within 2000 ms$/);
    for (const { ended } of ranks) expect((await ended).code).toBe(1);
  });

  it('tells a rank that there is no rank 0', async () => {
    start(1, 2);
    await expectAll(ranks, /^error rank 0 did not come to 127\.0\.0\.1:\d+ within 2000 ms/);
  });

  it('writes an IPv6 address in brackets', async () => {
    host = '::1';
    start(1, 2);
    await expectAll(ranks, /^error rank 0 did not come to \[::1\]:\d+ within 2000 ms/);
  });

  it('refuses a rank that is there already', async () => {
    start(0, 3);
    start(1, 3);
    await new Promise((resolve) => setTimeout(resolve, 300));
    start(1, 3);
    await expectAll(ranks, /^error two processes say that they are rank 1/);
  });

  it('refuses another number of ranks', async () => {
    start(0, 3);
    start(1, 2);
    await expectAll(ranks, /^error rank 1 was given a world size of 2, but rank 0 one of 3/);
  });

  it('refuses two ranks on one GPU', async () => {
    start(0, 2, 'the same');
    start(1, 2, 'the same');
    await expectAll(ranks, /^error ranks 0 and 1 use the same GPU \(the same\)/);
  });

  it.each([0, 2])('tells the others that rank %d was killed', async (victim) => {
    await open(3, 10000);
    sayAll('step a 64');
    await answers();
    ranks[victim].process.kill('SIGKILL');
    const others = ranks.filter((_, rank) => rank !== victim);
    await expectAll(others, new RegExp(`^failed rank ${victim} died`), 5000);
    others.forEach((rank) => rank.say('step a 64'));
    await expectAll(others, new RegExp(`^error rank ${victim} died`));
  });

  it.each([0, 2])('tells the others that rank %d has exited, which ends at once and keeps its code', async (victim) => {
    await open(3, 10000);
    sayAll('step a 64');
    await answers();
    ranks[victim].say('start a 64');
    expect(await ranks[victim].next()).toBe('started 2');
    ranks[victim].say('exit 7');
    const message = `rank ${victim} has ended without closing the group`;
    await expectAll(ranks, new RegExp(`^failed ${message}$`), 1000);
    expect(await ranks[victim].ended).toEqual({ code: 7, signal: null });
    const others = ranks.filter((_, rank) => rank !== victim);
    others.forEach((rank) => rank.say('step a 64'));
    await expectAll(others, new RegExp(`^error ${message}$`));
  });

  it.each([0, 2])('fails on all ranks when it does on rank %d, for the first reason there is', async (victim) => {
    await open(3, 10000);
    const others = ranks.filter((_, rank) => rank !== victim);
    others.forEach((rank) => rank.say('step a 64')); // they wait for its vote
    ranks[victim].say('fail out of memory');
    expect(await ranks[victim].next()).toBe('failed out of memory');
    for (const rank of others) {
      const lines = [await rank.next(), await rank.next()].sort();
      expect(lines).toEqual(['error out of memory', 'failed out of memory']);
    }
    ranks[1].say('fail another reason');
    sayAll('step a 64');
    await expectAll(ranks, /^error out of memory$/);
  });

  it('tells all who called what, when their calls differ', async () => {
    await open(2);
    ranks[0].say('step a 64');
    ranks[1].say('step a 128');
    const all = await Promise.all(ranks.map(async (rank) => [await rank.next(), await rank.next()].sort()));
    for (const [error, failed] of all) {
      for (const line of [error, failed]) {
        expect(line).toMatch(
          /the ranks differ in step 1: .*a of 64 bytes.*a of 128 bytes|.*a of 128 bytes.*a of 64 bytes/,
        );
      }
    }
  });

  it('joins shards in any order, with gaps and without ids, which may change', async () => {
    await open(3);
    for (const [step, ...ids] of [
      [1, '64 200', '0 64', '300 400'],
      [2, '64 200', '0 0', '0 64'],
      [3, '64 200', '0 0', '0 64'],
      [4, '0 0', '', '7 7'],
    ]) {
      ranks.forEach((rank, i) => rank.say(`step a 64 ${ids[i]}`));
      expect(await answers()).toEqual(ranks.map(() => `done ${step}`));
    }
  });

  it('tells all which ranks hold the same ids, from the step on in which they do', async () => {
    await open(3);
    const ids = ['0 100', '100 200', '200 300'];
    for (const step of [1, 2]) {
      ranks.forEach((rank, i) => rank.say(`step a 64 ${ids[i]}`));
      expect(await answers()).toEqual(ranks.map(() => `done ${step}`));
    }
    ids[2] = '199 300';
    ranks.forEach((rank, i) => rank.say(`step a 64 ${ids[i]}`));
    const message =
      'vocabStart must give every rank ids of its own, but step 3 (a of 64 bytes) got ' +
      '[100, 200) in rank 1 and [199, 300) in rank 2';
    // The others may have begun the step before it was asked for.
    for (const rank of ranks) {
      const lines = [await rank.next(), await rank.next()].sort();
      expect(lines[1]).toBe(`failed ${message}`);
      expect(['done 3', `error ${message}`]).toContain(lines[0]);
    }
  });

  it('tells which rank did not come to a step', async () => {
    await open(3);
    ranks[0].say('step a 64');
    ranks[2].say('step a 64');
    const [first, second] = [await ranks[0].next(), await ranks[2].next()];
    for (const line of [first, second])
      expect(line).toMatch(/rank 1 did not come to step 1 \(a of 64 bytes\) within 2000 ms/);
  });

  it('tells which rank does not complete a step', async () => {
    await open(2);
    ranks[0].say('step a 64');
    ranks[1].say('start a 64');
    expect(await ranks[0].next()).toBe('done 1');
    expect(await ranks[1].next()).toBe('started 1');
    await expectAll(ranks, /^failed step 1 \(a of 64 bytes\) did not complete on rank 1 within 2000 ms/);
  });

  it('tells the others that a rank has closed the group', async () => {
    await open(2);
    ranks[1].say('close');
    expect(await ranks[1].next()).toBe('closed');
    ranks[0].say('step a 64');
    const lines = [await ranks[0].next(), await ranks[0].next()];
    for (const line of lines) expect(line).toMatch(/rank 1 has closed the group/);
  });
});
