import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

/** A test program in C++ that is spoken to in lines. */
export class NativeProgram {
  readonly process: ChildProcessWithoutNullStreams;
  /** How it ended; only when all that it printed has come. */
  readonly ended: Promise<{ code: number | null; signal: string | null }>;
  private readonly lines: string[] = [];
  private wake: () => void = () => undefined;
  private closed = false;

  constructor(name: string, args: string[] = [], env: NodeJS.ProcessEnv = {}) {
    const path = join(__dirname, '..', '..', 'build', 'native', name);
    if (!existsSync(path)) throw new Error(`${path} is missing: run npm run setup first.`);
    this.process = spawn(path, args, { env: { ...process.env, ...env } });
    let rest = '';
    this.process.stdout.setEncoding('utf8').on('data', (text: string) => {
      const pieces = (rest + text).split('\n');
      rest = pieces.pop() as string;
      this.lines.push(...pieces);
      this.wake();
    });
    this.process.stdin.on('error', () => undefined); // it may end without reading all
    this.ended = new Promise((resolve) => {
      this.process.on('close', (code, signal) => {
        this.closed = true;
        this.wake();
        resolve({ code, signal });
      });
    });
  }

  say(line: string): void {
    this.process.stdin.write(`${line}\n`);
  }

  /** The next line that it prints; undefined at the end. */
  async next(): Promise<string | undefined> {
    while (this.lines.length === 0 && !this.closed) await new Promise<void>((resolve) => (this.wake = resolve));
    return this.lines.shift();
  }
}

/** Runs a program that checks by itself, and ends with "N checks, M failed". */
export async function expectNoneFailed(name: string): Promise<void> {
  const program = new NativeProgram(name);
  const lines: string[] = [];
  for (let line = await program.next(); line !== undefined; line = await program.next()) lines.push(line);
  expect(lines).toEqual([expect.stringMatching(/^[1-9]\d* checks, 0 failed$/)]);
  expect(await program.ended).toEqual({ code: 0, signal: null });
}
