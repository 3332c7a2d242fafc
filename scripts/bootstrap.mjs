// What `npm run setup`, `doctor`, `demo`, `example:compare-heads`, `example:tensor-parallel`, `test` and `test:sanitize` run.
// It starts from a fresh clone, where nothing is installed yet, so it uses Node.js alone. Each preparation does nothing when
// it was done before.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const modules = join(root, 'node_modules');
const dist = join(root, 'dist');
const env = { TF_CPP_MIN_LOG_LEVEL: '2', ...process.env };
const [command, ...rest] = process.argv.slice(2);

/** Runs a program in the package's folder and returns its exit code. Preparations write to standard error alone. */
function run(program, args, { quietOutput = false } = {}) {
  const stdio = ['inherit', quietOutput ? 2 : 'inherit', 'inherit'];
  const { status, signal, error } = spawnSync(program, args, { cwd: root, env, stdio });
  if (error) console.error(`${program} does not run: ${error.message}`);
  if (signal) console.error(`${program} was ended by ${signal}`);
  return status ?? 1;
}

function node(args, options) {
  return run(process.execPath, args, options);
}

function npm(args, options) {
  // npm tells the scripts it runs where it is itself
  const script = process.env.npm_execpath;
  return script && /npm-cli\.c?js$/.test(script) ? node([script, ...args], options) : run('npm', args, options);
}

/** Ends the script when a preparation failed; that one has said why. */
function must(status, what) {
  if (status === 0) return;
  console.error(`${what} failed.`);
  process.exit(status);
}

/** Whether node_modules holds what package-lock.json names. npm writes its own list there last, so an interrupted install has none. */
function isInstalled() {
  const read = (path) => JSON.parse(readFileSync(path, 'utf8')).packages;
  try {
    const wanted = Object.entries(read(join(root, 'package-lock.json'))).filter(([path]) => path !== '');
    const present = read(join(modules, '.package-lock.json'));
    return wanted.every(([path, { version, optional }]) =>
      present[path] ? present[path].version === version : optional,
    );
  } catch {
    return false;
  }
}

function install() {
  if (isInstalled()) return;
  // `npm ci` empties node_modules, and with it the TensorFlow that setup has put there
  const cache = join(modules, '.cache', 'tfjs-lm-head');
  const aside = join(root, '.cache', 'tfjs-lm-head');
  if (existsSync(cache) && !existsSync(aside)) move(cache, aside);
  console.error('Installing npm packages ...');
  must(npm(['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { quietOutput: true }), 'npm ci');
  if (existsSync(aside)) move(aside, cache);
}

function move(from, to) {
  mkdirSync(dirname(to), { recursive: true });
  renameSync(from, to);
}

function filesUnder(path) {
  if (!existsSync(path)) return [];
  return readdirSync(path, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
    .sort();
}

function compile() {
  const configs = ['package.json', 'tsconfig.json', 'tsconfig.build.json'].map((name) => join(root, name));
  const sources = ['src', 'bench', 'examples', 'test'].flatMap((name) =>
    filesUnder(join(root, name)).filter((path) => /\.m?ts$/.test(path)),
  );
  const hash = createHash('sha256');
  for (const path of [...configs, ...sources]) hash.update(path).update('\0').update(readFileSync(path)).update('\0');
  const digest = hash.digest('hex');
  const stamp = join(dist, '.stamp');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return;
  console.error('Compiling TypeScript ...');
  rmSync(dist, { recursive: true, force: true });
  must(node([join(modules, 'typescript', 'bin', 'tsc'), '-p', 'tsconfig.build.json'], { quietOutput: true }), 'tsc');
  writeFileSync(stamp, digest);
}

function setup(args) {
  must(node([join(dist, 'src', 'setup', 'cli.js'), 'setup', ...args], { quietOutput: true }), 'Setup');
}

function example(name, args) {
  setup([]);
  process.exit(node([join(dist, 'examples', `${name}.js`), ...args]));
}

function test(args) {
  setup(['--cuda-kernels']);
  const checked = npm(['run', 'check']);
  if (checked !== 0) console.error('npm run check failed; the tests run all the same.');
  const folder = mkdtempSync(join(tmpdir(), 'tfjs-lm-head-'));
  const report = join(folder, 'jest.json');
  const jest = node([join(modules, 'jest', 'bin', 'jest.js'), '--json', `--outputFile=${report}`, ...args]);
  if (!existsSync(report)) process.exit(jest || 1);
  const { numPassedTests, numFailedTests, numPendingTests, numTodoTests, numRuntimeErrorTestSuites } = JSON.parse(
    readFileSync(report, 'utf8'),
  );
  rmSync(folder, { recursive: true });
  // a suite that does not load has no tests to count, but is a failure all the same
  const failed = numFailedTests + numRuntimeErrorTestSuites;
  console.log(`${numPassedTests} passed, ${failed} failed, ${numPendingTests + numTodoTests} skipped`);
  process.exit(checked || jest || (numPassedTests === 0 ? 1 : 0));
}

function sanitize(args) {
  const home = process.env.CUDA_HOME;
  const tool = [...(home ? [join(home, 'bin')] : []), ...(process.env.PATH ?? '').split(':')]
    .map((folder) => join(folder, 'compute-sanitizer'))
    .find((path) => existsSync(path));
  if (!tool) {
    console.error(
      'compute-sanitizer is missing: install a CUDA toolkit and put its bin folder into PATH, or set CUDA_HOME to it.',
    );
    process.exit(1);
  }
  setup(['--cuda-kernels']);
  const program = join(root, 'build', 'native', 'cuda_test');
  const failed = ['memcheck', 'racecheck', 'initcheck', 'synccheck'].filter((check) => {
    console.log(`compute-sanitizer ${check}`);
    return run(tool, ['--tool', check, '--error-exitcode', '1', program, '--sanitize', ...args]) !== 0;
  });
  if (failed.length > 0) console.error(`compute-sanitizer found errors with ${failed.join(', ')}.`);
  process.exit(failed.length > 0 ? 1 : 0);
}

const commands = {
  setup: (args) => setup(args),
  doctor: (args) => process.exit(node([join(dist, 'src', 'setup', 'cli.js'), 'doctor', ...args])),
  demo: (args) => example('demo', args),
  'compare-heads': (args) => example('compare_heads', args),
  'tensor-parallel': (args) => example('tensor_parallel', args),
  test,
  sanitize,
};

if (!Object.hasOwn(commands, command ?? '')) {
  console.error(`usage: node scripts/bootstrap.mjs ${Object.keys(commands).join(' | ')} [arguments]`);
  process.exit(2);
}
install();
compile();
commands[command](rest);
