import { execFileSync } from 'node:child_process';
import { cpus } from 'node:os';
import { packageRoot } from '../src/native/package_root';

/** The GPU's name, or undefined where nvidia-smi finds none. */
export function gpuName(): string | undefined {
  return gpuNames()[0];
}

/** Names of the GPUs that a process sees: all, or those that CUDA_VISIBLE_DEVICES lists by number or UUID. */
export function gpuNames(): string[] {
  const lines = output('nvidia-smi', ['--query-gpu=index,uuid,name', '--format=csv,noheader'])?.split('\n') ?? [];
  const gpus = lines
    .map((line) => line.split(',').map((field) => field.trim()))
    .filter((fields) => fields.length === 3);
  const visible = process.env['CUDA_VISIBLE_DEVICES']?.split(',').map((device) => device.trim());
  if (visible === undefined) return gpus.map(([, , name]) => name);
  return visible.flatMap((device) => {
    const gpu = gpus.find(([index, uuid]) => device !== '' && (device === index || uuid.startsWith(device)));
    return gpu === undefined ? [] : [gpu[2]];
  });
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
    const options = { cwd: packageRoot(), encoding: 'utf8' as const, env: process.env, stdio, timeout: 10000 };
    return execFileSync(program, args, options).trim();
  } catch {
    return undefined;
  }
}
