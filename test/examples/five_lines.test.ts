import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot, runExample } from './run_example';

describe('the five lines of the README', () => {
  it('are those of examples/five_lines.ts', () => {
    const example = readFileSync(join(packageRoot, 'examples', 'five_lines.ts'), 'utf8');
    const readme = readFileSync(join(packageRoot, 'README.md'), 'utf8');
    const lines = example.slice(example.indexOf('import'));
    expect(lines.trim().split('\n')).toHaveLength(5);
    expect(readme).toContain(lines);
  });

  it('print five different ids of the vocabulary', () => {
    const { status, stdout, stderr } = runExample('five_lines');
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    const ids = (stdout.match(/\d+/g) ?? []).map(Number);
    expect(new Set(ids).size).toBe(5);
    for (const id of ids) expect(id).toBeLessThan(32000);
  });
});
