import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Fixture, until } from './fixture';

let fixture: Fixture;
beforeEach(() => (fixture = new Fixture()));
afterEach(() => fixture.dispose());

const installs = (calls: string[]) => calls.filter((call) => call.includes('pip install'));
const builds = (calls: string[]) => calls.filter((call) => call.startsWith('cmake --build'));

function setUp(args: string[] = ['--cpu'], env: Record<string, string> = {}): string[] {
  const { status, stderr, stdout } = fixture.run(['setup', ...args], env);
  expect(stderr).toMatch(/^tfjs-lm-head is set up: /m);
  expect(stdout).toBe('');
  expect(status).toBe(0);
  return fixture.takeCalls();
}

test('the first run installs TensorFlow with hashes, links it, and builds', () => {
  const calls = setUp();
  const [install] = installs(calls);
  expect(install).toMatch(/--no-deps .*--only-binary=:all: --python-version 3\.12 .*--platform manylinux_2_27_x86_64/);
  expect(install).toMatch(/--require-hashes -r .*requirements\/tensorflow-cpu\.txt$/);
  const folder = join(fixture.cache, 'tensorflow-2.21.0-cpu');
  expect(readdirSync(folder)).toEqual(['tensorflow']);
  expect(readdirSync(join(folder, 'tensorflow')).sort()).toEqual([
    'include',
    'libtensorflow_cc.so.2',
    'libtensorflow_framework.so.2',
  ]);
  const links = join(fixture.tfjs, 'deps', 'lib');
  expect(readFileSync(join(links, 'libtensorflow.so'), 'utf8')).toBe('cc\n');
  expect(readFileSync(join(links, 'libtensorflow_cc.so.2'), 'utf8')).toBe('cc\n');
  expect(readFileSync(join(links, 'libtensorflow_framework.so.2'), 'utf8')).toBe('framework\n');
  expect(readlinkSync(join(links, 'libtensorflow.so'))).toMatch(/^\.\.\//);
  const configure = calls.find((call) => call.startsWith('cmake -S')) ?? '';
  expect(configure).toContain(`-DTENSORFLOW_LIB=${realpathSync(folder)}/tensorflow`);
  expect(configure).toMatch(/-DNVCC= -DCUDA_ROOT= /);
  expect(existsSync(join(fixture.package, 'build', 'native', 'libtfjs_lm_head_ops.so'))).toBe(true);
});

test('a second run does nothing, in less than 2 s', () => {
  setUp();
  const start = Date.now();
  expect(setUp()).toEqual([]);
  expect(Date.now() - start).toBeLessThan(2000);
});

test('a change in the native sources builds again and installs nothing', () => {
  setUp();
  writeFileSync(join(fixture.package, 'kernels', 'op.cc'), '// another op\n');
  const calls = setUp();
  expect(installs(calls)).toEqual([]);
  expect(builds(calls)).toHaveLength(1);
});

test.each(['deps/lib/libtensorflow.so', 'lib/napi-v8/tfjs_binding.node'])(
  '%s is restored when it was removed',
  (name) => {
    setUp();
    rmSync(join(fixture.tfjs, name));
    setUp();
    expect(existsSync(join(fixture.tfjs, name))).toBe(true);
  },
);

test('a file that was cut off is built again', () => {
  setUp();
  const library = join(fixture.package, 'build', 'native', 'libtfjs_lm_head_ops.so');
  writeFileSync(library, '');
  expect(builds(setUp())).toHaveLength(1);
  expect(readFileSync(library, 'utf8')).toBe('ops\n');
});

test('libraries that tfjs installed itself are replaced', () => {
  const link = join(fixture.tfjs, 'deps', 'lib', 'libtensorflow.so');
  mkdirSync(join(link, '..'), { recursive: true });
  writeFileSync(link, 'TensorFlow 2.9.1');
  setUp();
  expect(readFileSync(link, 'utf8')).toBe('cc\n');
});

test('@tensorflow/tfjs-node serves as well', () => {
  rmSync(fixture.tfjs, { recursive: true });
  const folder = join(fixture.tfjs, '..', 'tfjs-node');
  mkdirSync(folder);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: '@tensorflow/tfjs-node', version: '4.22.0' }));
  setUp();
  expect(existsSync(join(folder, 'lib', 'napi-v8', 'tfjs_binding.node'))).toBe(true);
});

test('--cuda installs CUDA and nvcc with hashes, without a GPU or a toolkit, and stays chosen', () => {
  const calls = setUp(['--cuda', '--architectures', '90,80']);
  expect(installs(calls).map((call) => /requirements\/(.*)$/.exec(call)?.[1])).toEqual([
    'tensorflow-cuda.txt',
    'nvcc.txt',
  ]);
  const root = join(realpathSync(fixture.cache), 'nvcc-13.0.88', 'nvidia', 'cu13');
  const configure = calls.find((call) => call.startsWith('cmake -S')) ?? '';
  expect(configure).toContain(`-DNVCC=${root}/bin/nvcc -DCUDA_ROOT=${root} -DCUDA_ARCHITECTURES=80;90 `);
  expect(existsSync(join(fixture.tfjs, 'deps', 'nvidia', 'cublas', 'lib'))).toBe(true);
  expect(setUp([])).toEqual([]);
  // --cpu starts over, and --cuda finds what it had installed
  expect(installs(setUp(['--cpu']))).toHaveLength(1);
  expect(existsSync(join(fixture.tfjs, 'deps', 'nvidia'))).toBe(false);
  expect(installs(setUp(['--cuda']))).toEqual([]);
});

test('--cuda-kernels compiles them for the CPU build of TensorFlow, with the nvcc of CUDA_HOME', () => {
  const home = join(fixture.root, 'cuda');
  const nvcc = fixture.addProgram(
    'nvcc',
    'echo "release 12.2, V1"; for a in 80 86 89 90; do echo compute_$a; done',
    join(home, 'bin'),
  );
  mkdirSync(join(home, 'include'));
  writeFileSync(join(home, 'include', 'cuda_runtime.h'), '');
  const calls = setUp(['--cpu', '--cuda-kernels', '--architectures', '80,90'], { CUDA_HOME: home });
  expect(installs(calls)).toHaveLength(1);
  expect(calls.find((call) => call.startsWith('cmake -S'))).toContain(
    `-DNVCC=${nvcc} -DCUDA_ROOT=${home} -DCUDA_ARCHITECTURES=80;90 `,
  );
});

test('--tensorflow installs another version, and says that its hashes are not checked', () => {
  const { status, stderr } = fixture.run(['setup', '--cpu', '--tensorflow', '2.20.0']);
  expect(status).toBe(0);
  expect(stderr).toMatch(/^TensorFlow 2\.20\.0 is installed without checking hashes\.$/m);
  const [install] = installs(fixture.takeCalls());
  expect(install).toMatch(/ tensorflow-cpu==2\.20\.0$/);
  expect(install).not.toContain('--require-hashes');
});

test('a run that was killed during the download is repaired by the next', async () => {
  const child = fixture.start(['setup', '--cpu'], { STUB_HANG: '1' });
  const partial = () =>
    (existsSync(fixture.cache) ? readdirSync(fixture.cache) : []).find((name) => name.includes('.partial'));
  await until(() => existsSync(join(fixture.cache, partial() ?? '', 'tensorflow', 'libtensorflow_cc.so.2')));
  child.kill('SIGKILL');
  await until(() => child.exitCode !== null || child.signalCode !== null);
  expect(existsSync(join(fixture.cache, 'setup.lock'))).toBe(true);
  setUp();
  expect(readdirSync(fixture.cache)).toEqual(['tensorflow-2.21.0-cpu']);
});

test('a run that was killed during the build is repaired by the next', async () => {
  const library = join(fixture.package, 'build', 'native', 'libtfjs_lm_head_ops.so');
  const child = fixture.start(['setup', '--cpu'], { STUB_HANG_BUILD: '1' });
  await until(() => existsSync(library));
  child.kill('SIGTERM');
  await until(() => child.exitCode !== null || child.signalCode !== null);
  expect(child.exitCode).toBe(143);
  writeFileSync(join(fixture.package, 'build', 'cmake', 'half-written.o'), '');
  setUp();
  expect(readFileSync(library, 'utf8')).toBe('ops\n');
  expect(existsSync(join(fixture.package, 'build', 'cmake', 'half-written.o'))).toBe(false);
});

test('two runs at the same time do the work once', async () => {
  const children = [1, 2].map(() => fixture.start(['setup', '--cpu']));
  await until(() => children.every((child) => child.exitCode !== null));
  expect(children.map((child) => child.exitCode)).toEqual([0, 0]);
  const calls = fixture.takeCalls();
  expect(installs(calls)).toHaveLength(1);
  expect(builds(calls)).toHaveLength(1);
});

test('doctor says what to do before setup, and that all is well after it', () => {
  const before = fixture.run(['doctor']);
  expect(before.status).toBe(1);
  expect(before.stdout).toMatch(/^FAILED {2}Setup: has not been completed: run 'npx tfjs-lm-head setup'$/m);
  setUp();
  const after = fixture.run(['doctor']);
  expect(after.stdout).toMatch(/^ok {6}Loading tfjs: a stub$/m);
  expect(after.stdout).not.toContain('FAILED');
  expect(after.status).toBe(0);
  rmSync(join(fixture.tfjs, 'lib'), { recursive: true });
  expect(fixture.run(['doctor']).stdout).toMatch(/^FAILED {2}Native build: .*tfjs_binding\.node gone: run/m);
});
