import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gpuNames } from '../../bench/machine';

describe('gpuNames', () => {
  const env = { ...process.env };
  let folder: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'nvidia-smi-'));
    const program = join(folder, 'nvidia-smi');
    writeFileSync(program, '#!/bin/sh\necho "0, GPU-aa11, Large"\necho "1, GPU-bb22, Small"\n');
    chmodSync(program, 0o755);
  });
  beforeEach(() => (process.env['PATH'] = `${folder}:${env['PATH']}`));
  afterEach(() => (process.env = { ...env }));
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each([
    [undefined, ['Large', 'Small']],
    ['1', ['Small']],
    ['1,0', ['Small', 'Large']],
    ['GPU-aa', ['Large']],
    ['', []],
    ['-1', []],
    ['2', []],
  ])('lists what a process sees with CUDA_VISIBLE_DEVICES %j', (visible, names) => {
    if (visible === undefined) delete process.env['CUDA_VISIBLE_DEVICES'];
    else process.env['CUDA_VISIBLE_DEVICES'] = visible;
    expect(gpuNames()).toEqual(names);
  });

  it('lists nothing without nvidia-smi', () => {
    process.env['PATH'] = '';
    expect(gpuNames()).toEqual([]);
  });
});
