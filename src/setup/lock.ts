import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const heartbeatMs = 30000;
/** A lock that nobody touched for so long is left over, wherever its owner runs. */
const staleMs = 10 * heartbeatMs;

/**
 * Runs `work` while no other setup does on the same cache, waiting for that one if need be. A lock that a killed setup
 * left behind does not stand in the way.
 */
export async function withLock<T>(path: string, waiting: () => void, work: () => Promise<T>): Promise<T> {
  mkdirSync(dirname(path), { recursive: true });
  for (let waits = 0; !tryLock(path);) {
    if (removeStale(path)) continue;
    if (waits++ === 0) waiting();
    await sleep(500);
  }
  const heartbeat = setInterval(() => {
    // somebody may have emptied the cache meanwhile
    if (existsSync(path)) utimesSync(path, new Date(), new Date());
  }, heartbeatMs);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    rmSync(path, { force: true });
  }
}

function tryLock(path: string): boolean {
  const owner = `${process.pid} ${startTime(process.pid)} ${hostname()}`;
  try {
    writeFileSync(path, owner, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  }
}

/** Removes a lock whose owner is gone; returns whether it did. */
function removeStale(path: string): boolean {
  const content = read(path);
  if (content === undefined || !isStale(path, content)) return false;
  // moved rather than removed: of two that find it stale, one alone moves it, and whoever moved a new lock puts it back
  const aside = `${path}.${process.pid}`;
  try {
    renameSync(path, aside);
    if (read(aside) === content) rmSync(aside);
    else renameSync(aside, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  return true;
}

function isStale(path: string, content: string): boolean {
  const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
  if (age > staleMs) return true;
  const [pid, start, host] = content.split(' ');
  // the content is written a moment after the file appears
  if (host === undefined) return age > heartbeatMs;
  return host === hostname() && startTime(Number(pid)) !== start;
}

/** When a process started, in the kernel's count, which tells it from a later one with the same id; 'gone' for none. */
function startTime(pid: number): string {
  const stat = read(`/proc/${pid}/stat`);
  // the second field, a name in parentheses, may hold spaces
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? 'gone';
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
