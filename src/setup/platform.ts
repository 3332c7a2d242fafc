import { existsSync, readdirSync, readFileSync, statfsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SetupError } from './errors';
import { quickOutput, which } from './run_command';

/** TensorFlow's wheels are built for this C library and later ones. */
const oldestGlibc = [2, 27] as const;

/**
 * Makes sure that there is a TensorFlow wheel for this machine at all.
 * @throws SetupError when there is none
 */
export function checkPlatform({ platform, arch, glibc } = thisPlatform()): void {
  const advice =
    "use Linux on x86-64 with glibc 2.27 or later, or stay with tfjs's other backends, which need no setup";
  if (platform !== 'linux' || arch !== 'x64') {
    throw new SetupError(`There is no TensorFlow wheel for ${platform}-${arch} that setup can use: ${advice}.`);
  }
  if (glibc === undefined) {
    throw new SetupError(`There is no TensorFlow wheel for a Linux without glibc, such as Alpine: ${advice}.`);
  }
  const [major = 0, minor = 0] = glibc.split('.').map(Number);
  if (major < oldestGlibc[0] || (major === oldestGlibc[0] && minor < oldestGlibc[1])) {
    throw new SetupError(`There is no TensorFlow wheel for glibc ${glibc}: ${advice}.`);
  }
}

/** What a wheel depends on; `glibc` is undefined where there is none (musl). */
function thisPlatform(): { platform: string; arch: string; glibc: string | undefined } {
  const report = process.report.getReport() as unknown as { header: { glibcVersionRuntime?: string } };
  return { platform: process.platform, arch: process.arch, glibc: report.header.glibcVersionRuntime };
}

/** Models of the NVIDIA GPUs that this machine's driver knows; empty without one. Reads files alone, so it is fast. */
export function nvidiaGpus(root = '/'): string[] {
  const folder = join(root, 'proc/driver/nvidia/gpus');
  if (existsSync(folder)) {
    const models = readdirSync(folder).map((gpu) => modelIn(join(folder, gpu, 'information')));
    if (models.length > 0) return models.sort();
  }
  // containers may hide /proc/driver; Windows' Linux has /dev/dxg in its place
  if (existsSync(join(root, 'dev/nvidia0'))) return ['NVIDIA GPU'];
  return existsSync(join(root, 'dev/dxg')) && existsSync(join(root, 'usr/lib/wsl/lib/libcuda.so.1'))
    ? ['NVIDIA GPU']
    : [];
}

function modelIn(information: string): string {
  try {
    return /^Model:\s*(.*)$/m.exec(readFileSync(information, 'utf8'))?.[1] ?? 'NVIDIA GPU';
  } catch {
    return 'NVIDIA GPU';
  }
}

/** One property of every GPU, as nvidia-smi tells it; undefined where nvidia-smi is missing or fails. */
export function querySmi(property: 'compute_cap' | 'driver_version', env = process.env): string[] | undefined {
  const smi = which('nvidia-smi', env) ?? which('/usr/lib/wsl/lib/nvidia-smi');
  const output = smi && quickOutput(smi, [`--query-gpu=${property}`, '--format=csv,noheader'], undefined, env);
  const values = output?.split('\n').map((line) => line.trim());
  const answers = values?.filter((line) => /^[\d.]+$/.test(line));
  return answers && answers.length > 0 ? answers : undefined;
}

/**
 * Makes sure that a folder's disk has room.
 * @throws SetupError when it has not
 */
export function checkDiskSpace(folder: string, neededBytes: number, freeBytes = freeSpace(folder)): void {
  if (freeBytes >= neededBytes) return;
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
  throw new SetupError(
    `The disk of ${folder} has ${gigabytes(freeBytes)} GB free but setup needs ${gigabytes(neededBytes)} GB: ` +
      'free some space and run setup again.',
  );
}

function freeSpace(folder: string): number {
  let existing = folder;
  while (!existsSync(existing)) existing = dirname(existing);
  const { bavail, bsize } = statfsSync(existing);
  return bavail * bsize;
}
