import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The demo's text, one line a paragraph: a small model has better things to learn than where lines were broken. */
export function readText(): string {
  const packageRoot = dirname(require.resolve('tfjs-lm-head/package.json'));
  return onePerLine(readFileSync(join(packageRoot, 'examples', 'data', 'alice.txt'), 'utf8'));
}

/** Joins the lines of each paragraph (paragraphs are separated by blank lines) and drops repeated blanks. */
export function onePerLine(text: string): string {
  const paragraphs = text.split(/\n\s*\n/).map((paragraph) => paragraph.trim().replace(/\s+/g, ' '));
  return paragraphs.filter((paragraph) => paragraph !== '').join('\n') + '\n';
}
