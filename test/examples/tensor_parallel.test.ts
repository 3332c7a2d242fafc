import { runExample } from './run_example';

describe('npm run example:tensor-parallel', () => {
  it.each([
    ['bfloat16', 3],
    ['binary', 2],
  ])('decodes the tokens of one process with a %s head in %d processes', (format, processes) => {
    const args = ['--processes', String(processes), '--tokens', '8', '--format', format];
    const { status, stdout, stderr } = runExample('tensor_parallel', args);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    const lines = stdout.match(/^rank \d of \d \((TCP|NCCL), ids .*\): 8 tokens, the same as one process: .*$/gm) ?? [];
    expect(lines).toHaveLength(processes);
    expect(new Set(lines.map((line) => line.slice(line.lastIndexOf(':')))).size).toBe(1);
  });

  it('lists its options', () => {
    const { status, stdout } = runExample('tensor_parallel', ['--help']);
    expect(status).toBe(0);
    for (const option of ['--processes', '--tokens', '--format']) expect(stdout).toContain(option);
  });

  it.each([
    ['--processes', '0'],
    ['--tokens', '1.5'],
    ['--format', 'int8'],
  ])('refuses %s %s', (option, value) => {
    const { status, stderr } = runExample('tensor_parallel', [option, value]);
    expect(status).not.toBe(0);
    expect(stderr).toContain(option);
  });
});

describe('the environment of a rank', () => {
  const before = { ...process.env };
  afterEach(() => {
    process.env = { ...before };
  });

  it.each([
    [undefined, '1', '1'],
    ['4,5', '1', '5'],
    ['GPU-aa,GPU-bb', '0', 'GPU-aa'],
    ['3', '1', '3'], // chosen already
    ['-1', '1', '-1'],
    ['4,5', undefined, '4,5'],
    [undefined, undefined, undefined],
  ])('shows it one GPU: of %s, with LOCAL_RANK %s, %s', (given, localRank, expected) => {
    for (const [name, value] of Object.entries({ CUDA_VISIBLE_DEVICES: given, LOCAL_RANK: localRank })) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
    jest.isolateModules(() => jest.requireActual('../../examples/tensor_parallel/environment'));
    expect(process.env['CUDA_VISIBLE_DEVICES']).toBe(expected);
  });
});
