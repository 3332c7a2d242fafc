import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SetupError } from './errors';
import { allArchitectures, checkoutArchitectures, type Plan } from './options';
import { pipInstall } from './pip';
import { querySmi } from './platform';
import { quickOutput, which } from './run_command';
import { makeAtomicDirectory } from './atomic_directory';

export interface Nvcc {
  path: string;
  /** Folder with include/ and lib64/ or lib/. */
  root: string;
  /** Such as [13, 0]. */
  version: [number, number];
}

/** The nvcc that pip has; requirements/nvcc.txt pins it. */
const pipVersion = '13.0.88';
export const pipNvccBytes = 0.5e9;
const oldestMajor = 12;
const remedy =
  'set CUDA_HOME to a CUDA toolkit of version 12.0 or later, or leave CUDA_HOME unset and nvcc out of PATH to have setup fetch nvcc 13.0 with pip';

/**
 * Finds the user's own nvcc: CUDA_HOME's, else the one in PATH.
 * @returns undefined when there is none, and pip's has to serve
 * @throws SetupError for an nvcc that is too old, or a CUDA_HOME without one
 */
export function findOwnNvcc(env = process.env): Nvcc | undefined {
  const home = env['CUDA_HOME'];
  if (home) {
    const path = join(home, 'bin', 'nvcc');
    if (!which(path)) throw new SetupError(`CUDA_HOME is ${home}, which holds no bin/nvcc: ${remedy}.`);
    return describeNvcc(path, [home]);
  }
  const path = which('nvcc', env);
  // distributions link /usr/bin/nvcc to a toolkit elsewhere
  return path === undefined
    ? undefined
    : describeNvcc(path, [dirname(dirname(path)), dirname(dirname(realpathSync(path)))]);
}

function describeNvcc(path: string, roots: string[]): Nvcc {
  const match = /release (\d+)\.(\d+)/.exec(quickOutput(path, ['--version']) ?? '');
  if (!match) throw new SetupError(`${path} does not tell its version, so it cannot be used: ${remedy}.`);
  const version: [number, number] = [Number(match[1]), Number(match[2])];
  if (version[0] < oldestMajor)
    throw new SetupError(`${path} is CUDA ${version.join('.')}, which is too old: ${remedy}.`);
  const root = roots.find((folder) => existsSync(join(folder, 'include', 'cuda_runtime.h')));
  if (root === undefined) throw new SetupError(`${path} has no include/cuda_runtime.h beside it: ${remedy}.`);
  return { path, root, version };
}

function pipFolder(cache: string): string {
  return join(cache, `nvcc-${pipVersion}`);
}

/** pip's nvcc, once `installNvcc` has put it into the cache. */
export function findPipNvcc(cache: string): Nvcc | undefined {
  const root = join(pipFolder(cache), 'nvidia', 'cu13');
  const path = join(root, 'bin', 'nvcc');
  return which(path) ? describeNvcc(path, [root]) : undefined;
}

/** Fetches nvcc with pip. */
export async function installNvcc(
  { cache, python, requirements }: { cache: string; python: string; requirements: string },
  report: (line: string) => void,
): Promise<void> {
  const wheels = ['--require-hashes', '-r', join(requirements, 'nvcc.txt')];
  await makeAtomicDirectory(pipFolder(cache), (folder) =>
    pipInstall({ python, folder, what: `nvcc ${pipVersion}`, wheels }, report),
  );
}

/**
 * The compute capabilities to build for: those asked for, else the GPUs' own, else the defaults that this nvcc knows.
 * @throws SetupError when nvcc does not know one that was asked for
 */
export function chooseArchitectures(plan: Plan, nvcc: Nvcc, env = process.env): string[] {
  const listed = [...(quickOutput(nvcc.path, ['--list-gpu-arch'], undefined, env) ?? '').matchAll(/compute_(\d+)/g)];
  const known = new Set(listed.map((match) => match[1]));
  const wanted = plan.architectures === 'native' ? ownArchitectures(env) : plan.architectures;
  if (wanted === undefined) return ['native'];
  const unknown = wanted.filter((architecture) => known.size > 0 && !known.has(architecture));
  if (unknown.length === 0) return wanted;
  if (wanted !== allArchitectures && wanted !== checkoutArchitectures) {
    throw new SetupError(
      `nvcc ${nvcc.version.join('.')} at ${nvcc.path} cannot build for architecture ${unknown.join(', ')}: choose others with --architectures, or set CUDA_HOME to another CUDA toolkit.`,
    );
  }
  return wanted.filter((architecture) => known.has(architecture));
}

function ownArchitectures(env: NodeJS.ProcessEnv): string[] | undefined {
  const capabilities = querySmi('compute_cap', env)?.map((capability) => capability.replace('.', ''));
  return capabilities && [...new Set(capabilities)].sort((a, b) => Number(a) - Number(b));
}

/** The oldest driver that runs what each nvcc major version builds. */
const oldestDriver: Record<number, number> = { 12: 525, 13: 580 };

/**
 * Makes sure that this machine's driver can run what nvcc builds; says nothing where the driver cannot be asked.
 * @throws SetupError when it cannot
 */
export function checkDriver(nvccMajor: number, env = process.env): void {
  const driver = querySmi('driver_version', env)?.[0];
  const needed = oldestDriver[nvccMajor];
  if (driver === undefined || needed === undefined || Number.parseInt(driver, 10) >= needed) return;
  throw new SetupError(
    `The NVIDIA driver is ${driver}, and kernels that nvcc ${nvccMajor} builds need ${needed} or later: update the driver, or ` +
      'install a CUDA toolkit that is no newer than the driver and set CUDA_HOME to it.',
  );
}
export const pipNvccMajor = Number.parseInt(pipVersion, 10);
