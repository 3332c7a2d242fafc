import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import type { Nvcc } from './cuda';
import { SetupError } from './errors';
import { buildErrors } from './last_lines';
import { runCommand } from './run_command';
import { bindingPath, type TfjsPackage } from './tfjs';
import type { Toolchain } from './toolchain';

export interface NativeBuild {
  /** This package's folder. */
  root: string;
  tfjs: TfjsPackage;
  /** Folder that holds the wheel's tensorflow/. */
  tensorflow: string;
  toolchain: Toolchain;
  /** Without it the op library has CPU kernels alone. */
  cuda?: { nvcc: Nvcc; architectures: string[] };
}

/** Where the op library and its addon are built. */
export function outputFolder(root: string): string {
  return join(root, 'build', 'native');
}

/** What a build leaves behind. */
export function buildOutputs(root: string, tfjs: TfjsPackage): string[] {
  const output = outputFolder(root);
  return [bindingPath(tfjs), join(output, 'libtfjs_lm_head_ops.so'), join(output, 'tfjs_lm_head_addon.node')];
}

/**
 * Builds tfjs's binding, the op library and the addon with CMake. Only what changed is built again.
 * @throws SetupError with the end of the log when it fails
 */
export async function buildNative(build: NativeBuild, report: (line: string) => void): Promise<void> {
  const { root, tfjs, toolchain } = build;
  const folder = join(root, 'build', 'cmake');
  const log = join(root, 'build', 'cmake.log');
  const unfinished = join(root, 'build', 'unfinished');
  // a build that was killed may leave half-written files that look finished to make
  if (existsSync(unfinished)) {
    for (const old of [folder, ...buildOutputs(root, tfjs)]) rmSync(old, { recursive: true, force: true });
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(unfinished, '');

  const env = { ...process.env, CXX: toolchain.compiler };
  const onLine = (line: string) => report(line);
  let configured = await runCommand(toolchain.cmake, configureArguments(build, folder), { env, onLine });
  if (configured.code !== 0 && configured.signal === null) {
    // CMake refuses a build folder that knows another compiler, generator or source folder
    rmSync(folder, { recursive: true, force: true });
    configured = await runCommand(toolchain.cmake, configureArguments(build, folder), { env, onLine });
  }
  let result = configured;
  if (configured.code === 0) {
    const parallel = ['--build', folder, '--parallel', String(availableParallelism())];
    result = await runCommand(toolchain.cmake, parallel, { env, onLine });
    result.output = configured.output + result.output;
  }
  writeFileSync(log, result.output);
  if (result.signal === null) rmSync(unfinished);
  const missing = buildOutputs(root, tfjs).filter((file) => !existsSync(file));
  if (result.code !== 0 || missing.length > 0) {
    const what = result.code !== 0 ? 'The native build failed' : `The native build left no ${missing.join(', ')}`;
    throw new SetupError(`${what}; the end of its log ${log}:\n${buildErrors(result.output, 30)}`);
  }
}

/** The command line of CMake's first half. */
export function configureArguments({ root, tfjs, tensorflow, toolchain, cuda }: NativeBuild, folder: string): string[] {
  const definitions: Record<string, string> = {
    CMAKE_BUILD_TYPE: 'Release',
    TENSORFLOW_INCLUDE: join(tensorflow, 'tensorflow', 'include'),
    TENSORFLOW_LIB: join(tensorflow, 'tensorflow'),
    TFJS_NODE: tfjs.folder,
    NODE_API_HEADERS: join(packageFolder('node-api-headers'), 'include'),
    NODE_ADDON_API: packageFolder('node-addon-api'),
    // passed even when empty, or CMake would remember those of the build before
    NVCC: cuda?.nvcc.path ?? '',
    CUDA_ROOT: cuda?.nvcc.root ?? '',
    CUDA_ARCHITECTURES: cuda?.architectures.join(';') ?? '',
    OUTPUT_DIR: outputFolder(root),
  };
  return [
    ...['-S', root, '-B', folder],
    ...(toolchain.generator ? ['-G', toolchain.generator] : []),
    ...Object.entries(definitions).map(([name, value]) => `-D${name}=${value}`),
  ];
}

function packageFolder(name: string): string {
  return dirname(require.resolve(`${name}/package.json`));
}
