import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const packageName = 'tfjs-lm-head';
let found: string | undefined;

/**
 * The folder of this package: the nearest one upwards whose package.json is named tfjs-lm-head. It is the same whether
 * the code runs from src/ (jest) or from dist/src/ (a build, an installed package).
 * @throws Error when there is no such folder, as after bundling this file into another package.
 */
export function packageRoot(): string {
  found ??= search(__dirname);
  return found;
}

function search(start: string): string {
  for (let folder = start; ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest) && nameIn(manifest) === packageName) return folder;
    if (dirname(folder) === folder) {
      throw new Error(
        `${packageName} cannot find its own folder above ${start}; bundlers must leave this package external, for it loads native code.`,
      );
    }
  }
}

function nameIn(manifest: string): unknown {
  return (JSON.parse(readFileSync(manifest, 'utf8')) as { name?: unknown }).name;
}
