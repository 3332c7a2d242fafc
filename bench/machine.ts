import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { packageRoot } from '../src/native/package_root';

/** The GPU's name, or undefined where nvidia-smi finds none. */
export function gpuName(): string | undefined {
  return gpuNames()[0];
}

/** Names of all GPUs. */
export function gpuNames(): string[] {
  const names = output('nvidia-smi', ['--query-gpu=name', '--format=csv,noheader'])?.split('\n') ?? [];
  return names.map((name) => name.trim()).filter(Boolean);
}

export function cpuName(): string {
  const list = cpus();
  return `${list[0]?.model.trim() ?? 'unknown CPU'}, ${list.length} threads`;
}

/** COMMIT, or what git says; '-dirty' if tracked files differ from it. */
export function commit(): string {
  const given = process.env['COMMIT'];
  if (given) return given;
  const head = output('git', ['rev-parse', 'HEAD']);
  if (head === undefined) return 'unknown';
  const changes = output('git', ['status', '--porcelain', '--untracked-files=no']);
  return changes === '' ? head : `${head}-dirty`;
}

/** 'NVIDIA H200' -> 'nvidia-h200', a file's name. */
export function slug(name: string): string {
  return name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '');
}

function output(program: string, args: string[]): string | undefined {
  try {
    const stdio: ['ignore', 'pipe', 'ignore'] = ['ignore', 'pipe', 'ignore'];
    return execFileSync(program, args, { cwd: packageRoot(), encoding: 'utf8', stdio, timeout: 10000 }).trim();
  } catch {
    return undefined;
  }
}
