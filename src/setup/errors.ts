/** Something that setup needs is missing; the message is one sentence that says what, and what to do about it. */
export class SetupError extends Error {
  override name = 'SetupError';
}

/** One sentence for any error: a SetupError's own, a file system error's reason and path, else the bare message. */
export function sentence(error: unknown): string {
  if (error instanceof SetupError) return error.message;
  const { code, path, message } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC') return `The disk is full${path ? ` at ${path}` : ''}: free some space and run setup again.`;
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    return `${path ?? 'A folder'} cannot be written (${code}): run setup as the user who owns it.`;
  }
  return message;
}
