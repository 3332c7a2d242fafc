// Formats the C++ and CUDA sources, or checks that they are formatted: node scripts/clang_format.mjs --check | --write
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const mode = process.argv[2];
if (mode !== '--check' && mode !== '--write') {
  console.error('usage: node scripts/clang_format.mjs --check | --write');
  process.exit(2);
}

const sources = ['kernels', 'cuda', 'test/cuda', 'test/native']
  .map((folder) => join(root, folder))
  .filter((folder) => existsSync(folder))
  .flatMap((folder) => readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name))))
  .filter((path) => /\.(cc|h|cu|cuh)$/.test(path));
if (sources.length === 0) process.exit(0);

const binary = createRequire(import.meta.url)('clang-format').getNativeBinary();
const options = mode === '--check' ? ['--dry-run', '--Werror'] : ['-i'];
const { status, error } = spawnSync(binary, [...options, ...sources], { cwd: root, stdio: 'inherit' });
if (error) console.error(`clang-format does not run: ${error.message}`);
if (status !== 0 && mode === '--check') console.error("Run 'npm run format' to format the C++ and CUDA sources.");
process.exit(status ?? 1);
