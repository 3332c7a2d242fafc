/** The programs of a run, one after the other, for they share the GPU. */
import { join } from 'node:path';
import { packageRoot } from '../src/native/package_root';
import { runChild, type ChildRun } from './child';

export class Stages {
  /** What is missing and why, a sentence each. */
  readonly problems: string[] = [];
  /** Whether this package's own part is not complete; a peer may be missing. */
  failed = false;
  private readonly end: number;

  constructor(
    /** Longest time for all of them. */
    seconds: number,
    private readonly log: (line: string) => void,
  ) {
    this.end = Date.now() + seconds * 1000;
  }

  /** Runs one within `most` seconds and what is left of the time; `own`: it is this package's own. */
  async run(
    { name, most, own }: { name: string; most: number; own: boolean },
    start: Omit<ChildRun, 'name' | 'seconds'>,
  ): Promise<Record<string, unknown>[]> {
    const began = Date.now();
    this.log(`${name} ...`);
    const output = await runChild({ ...start, name, seconds: Math.min(most, (this.end - began) / 1000) });
    if (output.problem !== undefined) this.miss(output.problem, own);
    this.log(`  ${output.objects.length} results in ${Math.round((Date.now() - began) / 1000)} s`);
    return output.objects;
  }

  miss(problem: string, own: boolean): void {
    this.problems.push(problem);
    this.failed ||= own;
  }
}

/** How a program of bench/peers/ is started. */
export function peerStart(
  python: string,
  file: string,
  trials: object[],
  env: Record<string, string> = {},
): Omit<ChildRun, 'name' | 'seconds'> {
  const args = [join(packageRoot(), 'bench', 'peers', file)];
  return { program: python, args, env: { PYTHONDONTWRITEBYTECODE: '1', ...env }, input: { trials } };
}
