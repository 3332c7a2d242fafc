import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';

export interface CommandResult {
  /** Exit code; null when a signal ended it. */
  code: number | null;
  signal: NodeJS.Signals | null;
  /** Standard output and standard error, interleaved. */
  output: string;
}

const running = new Set<ChildProcess>();

/** Runs a command to its end and hands each line to `onLine` while it is running. A command that cannot start has code 127. */
export function runCommand(
  command: string,
  args: string[],
  { env = process.env, onLine }: { env?: NodeJS.ProcessEnv; onLine?: (line: string) => void } = {},
): Promise<CommandResult> {
  return new Promise((done) => {
    const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    running.add(child);
    let output = '';
    let rest = '';
    const take = (chunk: Buffer) => {
      output += chunk.toString();
      rest += chunk.toString();
      // progress bars end their lines with a carriage return
      const lines = rest.split(/[\r\n]+/);
      rest = lines.pop() ?? '';
      for (const line of lines) if (line.trim() !== '') onLine?.(line.trim());
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.on('error', (error) => {
      running.delete(child);
      done({ code: 127, signal: null, output: error.message });
    });
    child.on('close', (code, signal) => {
      running.delete(child);
      done({ code, signal, output });
    });
  });
}

/** Ends what is still running, for a setup that is being interrupted. */
export function stopCommands(): void {
  for (const child of running) child.kill('SIGTERM');
}

/** Runs a short command; undefined when it cannot start or fails. */
export function quickOutput(command: string, args: string[], input?: string, env = process.env): string | undefined {
  const { status, stdout, stderr } = spawnSync(command, args, { env, input, encoding: 'utf8', timeout: 60000 });
  return status === 0 ? stdout + stderr : undefined;
}

/** The full path of a program, given by its name (looked for in PATH) or by a path; undefined when there is none. */
export function which(program: string, env = process.env): string | undefined {
  const candidates = program.includes('/')
    ? [isAbsolute(program) ? program : resolve(program)]
    : (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder || '.', program));
  return candidates.find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
