import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { packageRoot } from './package_root';

/** What the native library says about itself and this machine. */
export interface Native {
  /** Whether it was compiled with CUDA kernels. */
  cudaKernels(): boolean;
  /** CUDA devices that this process sees; 0 without a driver. */
  gpuCount(): number;
  /**
   * Joins processes, one a GPU, and returns a handle above 0; waits until all ranks are there.
   * @throws Error that says what is missing: the NCCL library, a rank that has not come within `timeoutMs`, ...
   */
  openTensorParallelGroup(rank: number, worldSize: number, host: string, port: number, timeoutMs: number): number;
  /** Makes the group fail on all ranks; harmless when it has failed already. */
  failTensorParallelGroup(handle: number, why: string): void;
  /** Harmless when called again. */
  closeTensorParallelGroup(handle: number): void;
  /** Why the group has failed; '' while it is healthy. */
  tensorParallelGroupError(handle: number): string;
}

interface Addon extends Native {
  /** Registers the ops with the TensorFlow that tfjs-node has loaded; harmless when called again. */
  load(opsLibrary: string): void;
}

let loaded: Native | undefined;

/**
 * Loads the op library into TensorFlow, once in a process or worker. tfjs-node must have been loaded before.
 * @throws Error that names `npx tfjs-lm-head setup` when the library is missing or cannot be loaded
 */
export function loadNative(): Native {
  loaded ??= load(join(packageRoot(), 'build', 'native'));
  return loaded;
}

function load(folder: string): Native {
  const addonPath = join(folder, 'tfjs_lm_head_addon.node');
  const opsLibrary = join(folder, 'libtfjs_lm_head_ops.so');
  const missing = [addonPath, opsLibrary].find((path) => !existsSync(path));
  if (missing !== undefined) {
    throw new Error(
      `The kernels of tfjs-lm-head for backend 'tensorflow' have not been built (${missing} does not exist): ` +
        "run 'npx tfjs-lm-head setup'.",
    );
  }
  try {
    const addon = createRequire(__filename)(addonPath) as Addon;
    addon.load(opsLibrary);
    return addon;
  } catch (error) {
    throw new Error(
      `The kernels of tfjs-lm-head for backend 'tensorflow' cannot be loaded: ${(error as Error).message}\n` +
        "Run 'npx tfjs-lm-head setup' to build them for this machine, or 'npx tfjs-lm-head doctor' to see what is wrong.",
      { cause: error },
    );
  }
}
