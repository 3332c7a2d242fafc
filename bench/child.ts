import { spawn, type ChildProcess } from 'node:child_process';

export interface ChildRun {
  program: string;
  args: string[];
  /** What it is called in messages. */
  name: string;
  /** It and all that it started are killed after this many seconds. */
  seconds: number;
  /** Written to its standard input as JSON. */
  input?: unknown;
  env?: Record<string, string | undefined>;
}

/** What a program printed, and why that may not be all: `problem` is a sentence for the reader. */
export interface ChildOutput {
  objects: Record<string, unknown>[];
  problem?: string;
}

const running = new Set<ChildProcess>();

/**
 * Runs a program that prints JSON objects, one a line; other lines are ignored. Never rejects: what was printed before a
 * failure or the end of the time counts.
 */
export function runChild({ program, args, name, seconds, input, env }: ChildRun): Promise<ChildOutput> {
  if (seconds < 1) return Promise.resolve({ objects: [], problem: `${name} was left out: no time was left.` });
  return new Promise((resolve) => {
    const objects: Record<string, unknown>[] = [];
    let rest = '';
    let said = '';
    let cut = false;
    // A process group of its own, so that the helpers it starts end with it.
    const child = spawn(program, args, { detached: true, env: { ...process.env, ...env } });
    running.add(child);
    const timer = setTimeout(() => {
      cut = true;
      kill(child);
    }, seconds * 1000);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() as string;
      objects.push(...lines.flatMap(parseObject));
      said += lines
        .filter((line) => !line.startsWith('{'))
        .map((line) => line + '\n')
        .join('');
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-2000);
    });
    const end = (problem?: string) => {
      clearTimeout(timer);
      running.delete(child);
      objects.push(...parseObject(rest));
      resolve(problem === undefined ? { objects } : { objects, problem });
    };
    child.on('error', (error) => end(`${name} was left out: ${program} does not run (${error.message}).`));
    child.on('close', (code, signal) => {
      if (cut) end(`${name} was cut after ${Math.round(seconds)} s; what it measured until then counts.`);
      else if (code !== 0) end(`${name} ended with ${signal ?? `exit code ${code}`}: ${lastLines(said)}`);
      else end();
    });
    // A program that ends without reading its input is reported by its exit code.
    child.stdin.on('error', () => undefined);
    child.stdin.end(input === undefined ? '' : JSON.stringify(input));
  });
}

function parseObject(line: string): Record<string, unknown>[] {
  if (!line.startsWith('{')) return [];
  try {
    return [JSON.parse(line) as Record<string, unknown>];
  } catch {
    return [];
  }
}

function lastLines(text: string): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  return lines.length === 0 ? 'it said nothing more.' : lines.slice(-3).join(' | ');
}

function kill(child: ChildProcess): void {
  if (child.pid === undefined) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // It has just ended.
  }
}

function killAll(): void {
  for (const child of running) kill(child);
}

process.on('exit', killAll);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1));
