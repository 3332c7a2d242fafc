/** Numbers of a command line. */
import { InvalidArgumentError } from 'commander';

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('It must be a number above 0.');
  return value;
}

export function positiveInteger(text: string): number {
  const value = positiveNumber(text);
  if (!Number.isSafeInteger(value)) throw new InvalidArgumentError('It must be a whole number above 0.');
  return value;
}
