import * as util from 'node:util';

/**
 * Gives Node.js 23 and later the two functions of `util` that tfjs-node 4.22 calls and that were removed there. tfjs-node
 * looks them up at each call, so it does not matter which of the two packages is imported first. Harmless elsewhere.
 */
export function restoreNodeUtil(): void {
  // tfjs-node holds the module object itself, which is what `default` is here
  const target = ((util as { default?: object }).default ?? util) as Record<string, unknown>;
  target['isNullOrUndefined'] ??= (value: unknown) => value === null || value === undefined;
  target['isArray'] ??= Array.isArray;
}
