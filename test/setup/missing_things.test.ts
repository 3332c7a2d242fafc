import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkDiskSpace, checkPlatform } from '../../src/setup/platform';
import { Fixture, type Run } from './fixture';

let fixture: Fixture;
beforeEach(() => (fixture = new Fixture()));
afterEach(() => fixture.dispose());

/** Setup must end with exit code 1 and one sentence, the last line but for a log, and without a stack trace. */
function expectSentence({ status, stderr }: Run, sentence: RegExp): void {
  const lines = stderr.split('\n').filter((line) => line.startsWith('tfjs-lm-head: '));
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(sentence);
  expect(lines[0]).toMatch(/[.:]$/);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(status).toBe(1);
}

describe('what is missing is found before anything is downloaded', () => {
  function expectMissing(sentence: RegExp, args: string[] = ['--cpu'], env: Record<string, string> = {}): void {
    expectSentence(fixture.run(['setup', ...args], env), sentence);
    expect(fixture.takeCalls().filter((call) => call.includes('install'))).toEqual([]);
  }

  test('Python', () => {
    fixture.removeProgram('python3');
    expectMissing(/Python 3 with pip is missing: install them .*apt-get install python3-pip.* PYTHON=/);
  });
  test('the Python that PYTHON names', () => {
    expectMissing(/PYTHON is \/nowhere\/python3, which is no program: correct or unset it\./, ['--cpu'], {
      PYTHON: '/nowhere/python3',
    });
  });
  test('pip', () => {
    fixture.addProgram('python3', 'echo "No module named pip" >&2; exit 1');
    expectMissing(/python3 has no pip: install them/);
  });
  test('a pip that is new enough', () => {
    expectMissing(
      /pip of .* is version 20 and setup needs 21 or later: run '.* -m pip install --upgrade pip'/,
      ['--cpu'],
      { STUB_PIP_VERSION: '20.0.2' },
    );
  });
  test('a compiler', () => {
    fixture.removeProgram('g++');
    expectMissing(/A C\+\+17 compiler is missing: install GCC/);
  });
  test('C++17', () => {
    expectMissing(/g\+\+ cannot compile C\+\+17: install GCC/, ['--cpu'], { STUB_OLD_COMPILER: '1' });
  });
  test('the compiler that CXX names', () => {
    expectMissing(/CXX is icpc, which is no program/, ['--cpu'], { CXX: 'icpc' });
  });
  test('CMake', () => {
    fixture.removeProgram('cmake');
    expectMissing(/CMake is missing: install 3\.20 or later/);
  });
  test('a CMake that is new enough', () => {
    expectMissing(/cmake is CMake 3\.16, which is too old: install 3\.20/, ['--cpu'], { STUB_CMAKE_VERSION: '3.16.3' });
  });
  test('make', () => {
    fixture.removeProgram('make');
    expectMissing(/make is missing: install it/);
  });
  test('tfjs-node-gpu', () => {
    rmSync(fixture.tfjs, { recursive: true });
    expectMissing(/@tensorflow\/tfjs-node-gpu is not installed in .*: run 'npm install --ignore-scripts/);
  });
  test('the nvcc of CUDA_HOME', () => {
    expectMissing(/CUDA_HOME is \/nowhere, which holds no bin\/nvcc: /, ['--cuda'], { CUDA_HOME: '/nowhere' });
  });
  test('an nvcc that is new enough', () => {
    fixture.addProgram('nvcc', 'echo "Cuda compilation tools, release 11.8, V11.8.89"');
    expectMissing(/nvcc is CUDA 11\.8, which is too old: set CUDA_HOME/, ['--cuda']);
  });
  test('an architecture that nvcc knows', () => {
    fixture.addProgram(
      'nvcc',
      'echo "release 12.2, V1"; echo compute_80; echo compute_90',
      join(fixture.root, 'cuda', 'bin'),
    );
    mkdirSync(join(fixture.root, 'cuda', 'include'));
    writeFileSync(join(fixture.root, 'cuda', 'include', 'cuda_runtime.h'), '');
    const run = fixture.run(['setup', '--cuda', '--architectures', '90,120'], {
      CUDA_HOME: join(fixture.root, 'cuda'),
    });
    expectSentence(run, /nvcc 12\.2 at .* cannot build for architecture 120: choose others with --architectures/);
  });
});

describe("pip's failures", () => {
  // pip's own words, as versions 21 to 25 print them
  const refused =
    "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by 'NewConnectionError(" +
    "'<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary failure in name " +
    "resolution')': /simple/tensorflow-cpu/\n";
  const noMatch =
    'ERROR: Could not find a version that satisfies the requirement tensorflow-cpu==2.21.0 (from versions: none)\n' +
    'ERROR: No matching distribution found for tensorflow-cpu==2.21.0\n';
  const cases: [string, string, RegExp][] = [
    [
      'no network',
      refused + noMatch,
      /pip could not reach its package index to download TensorFlow 2\.21\.0: check the network/,
    ],
    [
      'no wheel',
      noMatch,
      /no wheel of TensorFlow 2\.21\.0 for CPython 3\.12 on Linux x86-64: choose another package index with PIP_INDEX_URL, or another version of TensorFlow with --tensorflow/,
    ],
    [
      'another file',
      'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    Expected sha256 dcc8\n         Got        0000\n',
      /for TensorFlow 2\.21\.0 is not the one that this package was tested with \(its sha256 differs\)/,
    ],
    [
      'a full disk',
      'ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n',
      /The disk became full while TensorFlow 2\.21\.0 was being installed: free some space/,
    ],
    ['anything else', 'ERROR: something new\n', /pip could not install TensorFlow 2\.21\.0; its last lines were:$/],
  ];
  test.each(cases)('%s', (_name, output, sentence) => {
    const file = join(fixture.root, 'pip.txt');
    writeFileSync(file, output);
    const run = fixture.run(['setup', '--cpu'], { STUB_PIP: file });
    expectSentence(run, sentence);
    if (output.includes('something new')) expect(run.stderr).toContain('    ERROR: something new\n');
  });
});

test('a build that fails shows the last 30 lines of its log, and where that is', () => {
  const run = fixture.run(['setup', '--cpu'], { STUB_CMAKE: '40' });
  expectSentence(run, /The native build failed; the end of its log .*cmake\.log:$/);
  expect(run.stderr).toContain('    line 11\n');
  expect(run.stderr).toContain('    line 40\n');
  expect(run.stderr).not.toContain('    line 10\n');
});

test('what was built but does not run fails the setup', () => {
  const check = JSON.stringify({ what: 'Loading tfjs', ok: false, detail: 'libx.so: cannot open shared object file.' });
  writeFileSync(
    join(fixture.package, 'dist', 'src', 'setup', 'probe.js'),
    `require('fs').writeSync(3, '${check}\\n'); process.exit(1);`,
  );
  expectSentence(fixture.run(['setup', '--cpu']), /Loading tfjs failed: libx\.so: cannot open shared object file\./);
});

test('a child that crashes fails the setup', () => {
  writeFileSync(join(fixture.package, 'dist', 'src', 'setup', 'probe.js'), "process.kill(process.pid, 'SIGSEGV');");
  expectSentence(fixture.run(['setup', '--cpu']), /The first step failed: Node\.js ended with SIGSEGV\./);
});

test.each([
  ['darwin', 'arm64', undefined, /no TensorFlow wheel for darwin-arm64 .*: use Linux on x86-64/],
  ['linux', 'arm64', '2.36', /no TensorFlow wheel for linux-arm64/],
  ['linux', 'x64', undefined, /without glibc, such as Alpine/],
  ['linux', 'x64', '2.17', /no TensorFlow wheel for glibc 2\.17/],
])('platform %s-%s, glibc %s', (platform, arch, glibc, message) => {
  expect(() => checkPlatform({ platform, arch, glibc })).toThrow(message);
});
test('platform linux-x64', () =>
  expect(() => checkPlatform({ platform: 'linux', arch: 'x64', glibc: '2.27' })).not.toThrow());

test('disk space', () => {
  expect(() => checkDiskSpace('/somewhere', 2e9, 1.5e9)).toThrow(
    'The disk of /somewhere has 1.5 GB free but setup needs 2.0 GB: free some space and run setup again.',
  );
  expect(() => checkDiskSpace(join(fixture.root, 'not', 'there', 'yet'), 1)).not.toThrow();
});
