import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Plan, SetupOptions } from './options';
import type { TfjsPackage } from './tfjs';

/** What a complete setup was made from, and what it left; written last, so its presence says that nothing was interrupted. */
export interface Stamp {
  /** Hash of everything that the outputs depend on. */
  inputs: string;
  plan: Plan;
  /** What the user asked for, as opposed to what setup chose. */
  userOptions: SetupOptions;
  /** Path and size of each file that has to be there; paths relative to the package's folder. */
  outputs: Record<string, number>;
  tensorflow: string;
  architectures: string[];
}

function stampPath(root: string): string {
  return join(root, 'build', 'setup.json');
}

/** The last complete setup; undefined before the first, or when its stamp cannot be read. */
export function readStamp(root: string): Stamp | undefined {
  try {
    return JSON.parse(readFileSync(stampPath(root), 'utf8')) as Stamp;
  } catch {
    return undefined;
  }
}

/** Notes that a setup is complete. */
export function writeStamp(root: string, stamp: Omit<Stamp, 'outputs'>, outputs: string[]): void {
  const sizes = Object.fromEntries(outputs.map((path) => [relative(root, path), statSync(path).size]));
  const path = stampPath(root);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(`${path}.${process.pid}`, `${JSON.stringify({ ...stamp, outputs: sizes }, null, 2)}\n`);
  renameSync(`${path}.${process.pid}`, path);
}

/** Whether all that the last setup left is still there, as large as it was. */
export function outputsHold(root: string, stamp: Stamp): boolean {
  return Object.entries(stamp.outputs).every(([path, size]) => {
    const file = statSync(join(root, path), { throwIfNoEntry: false });
    return file !== undefined && (file.isDirectory() || file.size === size);
  });
}

/** Files and folders of this package that the native build reads. */
const nativeSources = ['CMakeLists.txt', 'cmake', 'kernels', 'cuda', 'test/cuda', 'test/native'];

/** Hash of everything that decides what setup leaves. */
export function hashInputs(
  { root, tfjs, plan, gpus }: { root: string; tfjs: TfjsPackage; plan: Plan; gpus: string[] },
  env = process.env,
): string {
  const hash = createHash('sha256');
  const machine = plan.architectures === 'native' ? gpus : [];
  hash.update(JSON.stringify([root, tfjs, plan, machine, env['CUDA_HOME'], env['CXX']]));
  for (const path of [...nativeSources, 'requirements'].flatMap((name) => filesUnder(join(root, name)))) {
    hash.update(relative(root, path)).update('\0').update(readFileSync(path)).update('\0');
  }
  return hash.digest('hex');
}

function filesUnder(path: string): string[] {
  if (!existsSync(path)) return [];
  if (!statSync(path).isDirectory()) return [path];
  const names = readdirSync(path).sort();
  return names.flatMap((name) => filesUnder(join(path, name)));
}
