import type { DemoResult } from '../../examples/demo/run';
import { runExample } from './run_example';

describe('npm run demo', () => {
  it('gives the same tokens with both heads, as one JSON object', () => {
    const { status, stdout, stderr } = runExample('demo', ['--seconds', '2', '--tokens', '20', '--json']);
    expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
    const result = JSON.parse(stdout) as DemoResult;
    expect(result).toMatchObject({ backend: 'tensorflow', tokensEqual: true, tokens: 20 });
    expect(result.device).not.toBe('');
    expect(result.text).not.toBe('');
    for (const time of [result.stockMsPerToken, result.fusedMsPerToken, result.stockHeadMs, result.fusedHeadMs]) {
      expect(time).toBeGreaterThan(0);
    }
  });

  it('prints a report for a reader', () => {
    const { status, stdout } = runExample('demo', ['--steps', '2', '--tokens', '8']);
    expect(status).toBe(0);
    expect(stdout).toContain('Trained 2 steps');
    expect(stdout).toContain('All 8 tokens are the same with both heads.');
  });

  it('lists its options', () => {
    const { status, stdout } = runExample('demo', ['--help']);
    expect(status).toBe(0);
    for (const option of ['--seconds', '--steps', '--tokens', '--json']) expect(stdout).toContain(option);
  });

  it.each([
    ['--seconds', '0'],
    ['--seconds', 'soon'],
    ['--steps', '1.5'],
    ['--tokens', '-1'],
    ['--token', '5'],
  ])('refuses %s %s', (option, value) => {
    const { status, stdout, stderr } = runExample('demo', [option, value]);
    expect(status).not.toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toContain(option);
  });
});
