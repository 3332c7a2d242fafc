const indent = (lines: string[]) => lines.map((line) => `    ${line}`).join('\n');

function nonEmptyLines(output: string): string[] {
  return output.split(/\r?\n/).filter((line) => line.trim() !== '');
}

/** The last lines of a command's output, indented, for the end of an error message. */
export function lastLines(output: string, count: number): string {
  return indent(nonEmptyLines(output).slice(-count));
}

/** The same for a build, which goes on for a while after its first error: that one comes first then. */
export function buildErrors(output: string, count: number): string {
  const lines = nonEmptyLines(output);
  const first = lines.findIndex((line) => /\berror\b|\*\*\* /i.test(line));
  if (first < 0 || first >= lines.length - count) return indent(lines.slice(-count));
  const half = Math.floor(count / 2);
  return indent([...lines.slice(Math.max(0, first - 2), first + half - 3), '...', ...lines.slice(-half)]);
}
