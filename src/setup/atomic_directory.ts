import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';

const mark = '.partial-';
const remove = (folder: string) => rmSync(folder, { recursive: true, force: true });

/**
 * Fills a folder under another name and gives it its own at the end, so that a folder which has its name is whole. The
 * other name is new each time, for the pip of a setup that was killed may still be writing into the last one.
 */
export async function makeAtomicDirectory(folder: string, fill: (partial: string) => Promise<void>): Promise<void> {
  const partial = `${folder}${mark}${process.pid}-${Date.now()}`;
  remove(folder);
  mkdirSync(partial, { recursive: true });
  try {
    await fill(partial);
    renameSync(partial, folder);
  } catch (error) {
    remove(partial);
    throw error;
  }
}

/** Removes what interrupted runs left in the cache. */
export function removePartial(cache: string): void {
  if (!existsSync(cache)) return;
  for (const name of readdirSync(cache)) if (name.includes(mark)) remove(join(cache, name));
}
