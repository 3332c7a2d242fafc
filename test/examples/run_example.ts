import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export const packageRoot = join(__dirname, '..', '..');

/**
 * Runs a compiled example in a process of its own, as a user does: TensorFlow's settings are per process, and jest's
 * sandbox has typed arrays of its own.
 */
export function runExample(
  name: string,
  args: string[] = [],
): { status: number | null; stdout: string; stderr: string } {
  const script = join(packageRoot, 'dist', 'examples', `${name}.js`);
  if (!existsSync(script)) throw new Error(`${script} is missing: run npm run build first.`);
  const { status, stdout, stderr, error } = spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' });
  if (error) throw error;
  return { status, stdout, stderr };
}
