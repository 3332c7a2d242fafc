import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from './errors';
import { pinnedTensorflow, type Flavour, type Plan } from './options';
import { pipInstall } from './pip';
import { makeAtomicDirectory } from './atomic_directory';

/** What the two flavours are called by pip, and by people. */
const wheelName = { cpu: 'tensorflow-cpu', cuda: 'tensorflow' };
export const flavourName = { cpu: 'CPU', cuda: 'CUDA' };

/** What of the wheel's folder tensorflow/ is kept: all that tfjs's binding and this package's op library build and run with. */
const kept = ['libtensorflow_cc.so.2', 'libtensorflow_framework.so.2', 'include'];

/** Disk space that an installation takes while pip unpacks it. */
export const tensorflowBytes: Record<Flavour, number> = { cpu: 2e9, cuda: 11e9 };

/** Where a plan's TensorFlow lies: tensorflow/ and, with CUDA, nvidia/ beside it, as the wheels have them. */
export function tensorflowFolder(cache: string, plan: Plan): string {
  return join(cache, `tensorflow-${plan.tensorflow}-${plan.flavour}`);
}

/** Whether TensorFlow lies complete in a folder; it gets its name last, so a missing file means that somebody removed it. */
export function hasTensorflow(folder: string, flavour: Flavour): boolean {
  const wanted = [...kept.map((name) => join('tensorflow', name)), 'tensorflow/include/tensorflow/c/c_api.h'];
  if (flavour === 'cuda') wanted.push('nvidia/cuda_runtime/lib', 'nvidia/cublas/lib', 'nvidia/cudnn/lib');
  return wanted.every((name) => existsSync(join(folder, name)));
}

/**
 * Installs the plan's TensorFlow with pip.
 * @param requirements folder of the files with hashes
 * @throws SetupError
 */
export async function installTensorflow(
  { plan, cache, python, requirements }: { plan: Plan; cache: string; python: string; requirements: string },
  report: (line: string) => void,
): Promise<void> {
  const what = `TensorFlow ${plan.tensorflow}`;
  await makeAtomicDirectory(tensorflowFolder(cache, plan), async (folder) => {
    const install = (wheels: string[]) => pipInstall({ python, folder, what, wheels }, report);
    if (plan.tensorflow === pinnedTensorflow) {
      await install(['--require-hashes', '-r', join(requirements, `tensorflow-${plan.flavour}.txt`)]);
    } else {
      await install([`${wheelName[plan.flavour]}==${plan.tensorflow}`]);
      if (plan.flavour === 'cuda') await install(cudaRequirements(folder));
    }
    prune(folder);
    if (hasTensorflow(folder, plan.flavour)) return;
    throw new SetupError(
      `The wheel of ${what} does not hold the libraries and headers that tfjs needs: choose another version with --tensorflow, such as ${pinnedTensorflow}.`,
    );
  });
}

/** The CUDA libraries that a TensorFlow wheel names itself, in its extra and-cuda. */
export function cudaRequirements(folder: string): string[] {
  const info = readdirSync(folder).find((name) => /^tensorflow-.*\.dist-info$/.test(name));
  const metadata = info ? readFileSync(join(folder, info, 'METADATA'), 'utf8') : '';
  const lines = [...metadata.matchAll(/^Requires-Dist:\s*(nvidia-[^;]*);\s*extra\s*==\s*["']and-cuda["']/gm)];
  return lines.map((match) => (match[1] ?? '').replace(/[()\s]/g, ''));
}

/** The wheel is half Python code, which nothing here runs. */
function prune(folder: string): void {
  const remove = (path: string) => rmSync(path, { recursive: true, force: true });
  for (const name of readdirSync(folder)) if (name !== 'tensorflow' && name !== 'nvidia') remove(join(folder, name));
  const wheel = join(folder, 'tensorflow');
  if (!existsSync(wheel)) return;
  for (const name of readdirSync(wheel)) if (!kept.includes(name)) remove(join(wheel, name));
}
