import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  allArchitectures,
  checkoutArchitectures,
  makePlan,
  parseArchitectures,
  parseOptions,
} from '../../src/setup/options';
import { nvidiaGpus } from '../../src/setup/platform';
import { cudaRequirements } from '../../src/setup/tensorflow';
import { buildErrors, lastLines } from '../../src/setup/last_lines';
import { Fixture } from './fixture';

describe('options', () => {
  test('all of them', () => {
    const raw = { cuda: true, tensorflow: '2.20.0', cudaKernels: true, architectures: '9.0, 80;80' };
    expect(parseOptions(raw)).toEqual({
      flavour: 'cuda',
      tensorflow: '2.20.0',
      cudaKernels: true,
      architectures: ['80', '90'],
    });
    expect(parseOptions({})).toEqual({});
    expect(parseOptions({ architectures: 'all' })).toEqual({ architectures: allArchitectures });
  });
  test('bad ones', () => {
    expect(() => parseOptions({ cpu: true, cuda: true })).toThrow(
      '--cpu and --cuda exclude each other: pass one of them.',
    );
    expect(() => parseOptions({ tensorflow: 'newest' })).toThrow("must be a version such as 2.21.0, but got 'newest'");
    for (const list of ['', ',', 'sm_90', '35', '9', '80,x', '-80']) {
      expect(() => parseArchitectures(list)).toThrow(`such as 80,90, but got '${list}'`);
    }
  });
});

describe('plans', () => {
  test('without a wish, the machine decides', () => {
    expect(makePlan({}, {}, false, false).plan).toEqual({
      flavour: 'cpu',
      tensorflow: '2.21.0',
      cudaKernels: false,
      architectures: allArchitectures,
    });
    expect(makePlan({}, {}, true, false).plan).toMatchObject({
      flavour: 'cuda',
      cudaKernels: true,
      architectures: 'native',
    });
  });
  test('--cpu on a machine with a GPU, --cuda on one without', () => {
    expect(makePlan({ flavour: 'cpu' }, {}, true, false).plan).toMatchObject({ flavour: 'cpu', cudaKernels: false });
    expect(makePlan({ flavour: 'cuda' }, {}, false, false).plan).toMatchObject({
      flavour: 'cuda',
      cudaKernels: true,
      architectures: allArchitectures,
    });
  });
  test('a checkout builds for fewer GPUs where there is none, unless it is told otherwise', () => {
    expect(makePlan({}, {}, false, true).plan.architectures).toEqual(['80', '90']);
    expect(makePlan({}, {}, true, true).plan.architectures).toBe('native');
    const all = parseArchitectures('all');
    expect(makePlan({ architectures: all }, {}, false, true).plan.architectures).toEqual(allArchitectures);
    expect(all.filter((architecture) => checkoutArchitectures.includes(architecture))).toEqual(checkoutArchitectures);
  });
  test('options of the last setup stay until --cpu or --cuda', () => {
    const last = { flavour: 'cuda', architectures: ['90'] } as const;
    expect(makePlan({}, { ...last, architectures: [...last.architectures] }, false, false).plan).toMatchObject(last);
    expect(makePlan({ cudaKernels: true }, {}, false, false).userOptions).toEqual({ cudaKernels: true });
    expect(makePlan({}, { cudaKernels: true }, false, false).plan.cudaKernels).toBe(true);
    expect(makePlan({ flavour: 'cpu' }, { cudaKernels: true }, false, false).plan.cudaKernels).toBe(false);
  });
});

describe('the command line', () => {
  let fixture: Fixture;
  beforeAll(() => (fixture = new Fixture()));
  afterAll(() => fixture.dispose());

  test('--help names both commands, setup --help every option', () => {
    const help = fixture.run(['--help']);
    expect(help.stdout).toMatch(/^ {2}setup .*\n(.*\n)* {2}doctor /m);
    expect(help.status).toBe(0);
    const { stdout } = fixture.run(['setup', '--help']);
    for (const option of ['--cpu', '--cuda', '--tensorflow <version>', '--cuda-kernels', '--architectures <list>']) {
      expect(stdout).toContain(`  ${option} `);
    }
    expect(stdout).toContain('CUDA_HOME');
    expect(fixture.run(['--version']).stdout).toBe('0.0.0\n');
  });
  test.each([
    [['install'], "error: unknown command 'install'"],
    [['setup', '--gpu'], "error: unknown option '--gpu'"],
    [['setup', '--cpu', '--cuda'], 'tfjs-lm-head: --cpu and --cuda exclude each other: pass one of them.'],
  ])('%j is refused', (args, message) => {
    const { status, stderr } = fixture.run(args);
    expect(stderr).toContain(`${message}\n`);
    expect(status).toBe(1);
  });
});

describe('reading files', () => {
  let root: string;
  beforeEach(() => (root = mkdtempSync(join(tmpdir(), 'setup-test-'))));
  afterEach(() => rmSync(root, { recursive: true }));

  test('GPUs that the driver lists', () => {
    expect(nvidiaGpus(root)).toEqual([]);
    for (const [slot, model] of [
      ['0000:1b:00.0', 'NVIDIA H200'],
      ['0000:01:00.0', 'NVIDIA A100'],
    ] as const) {
      const folder = join(root, 'proc/driver/nvidia/gpus', slot);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'information'), `Model: \t\t ${model}\nIRQ:   \t\t 16\n`);
    }
    expect(nvidiaGpus(root)).toEqual(['NVIDIA A100', 'NVIDIA H200']);
  });
  test('a GPU that only /dev shows', () => {
    mkdirSync(join(root, 'dev'));
    writeFileSync(join(root, 'dev/nvidia0'), '');
    expect(nvidiaGpus(root)).toEqual(['NVIDIA GPU']);
  });
  test("the CUDA libraries in a wheel's metadata", () => {
    mkdirSync(join(root, 'tensorflow-2.20.0.dist-info'));
    const lines = [
      'Requires-Dist: numpy>=1.26.0',
      'Requires-Dist: nvidia-cublas-cu12<13.0,>=12.5.3.2; extra == "and-cuda"',
      "Requires-Dist: nvidia-nccl-cu12 (<3.0,>=2.25.1) ; extra == 'and-cuda'",
      'Requires-Dist: tensorboard~=2.20; extra == "and-tensorboard"',
    ];
    writeFileSync(join(root, 'tensorflow-2.20.0.dist-info', 'METADATA'), lines.join('\n'));
    expect(cudaRequirements(root)).toEqual(['nvidia-cublas-cu12<13.0,>=12.5.3.2', 'nvidia-nccl-cu12<3.0,>=2.25.1']);
  });
});

describe('the end of a log', () => {
  const log = (count: number, errorAt: number) =>
    Array.from({ length: count }, (_, i) => (i === errorAt ? 'op.cc:1: error: no' : `line ${i}`)).join('\n');
  test('is its last lines', () => {
    expect(lastLines('a\n\nb\r\nc\n', 2)).toBe('    b\n    c');
    expect(buildErrors(log(40, 35), 30)).toBe(lastLines(log(40, 35), 30));
  });
  test("starts with a build's first error when that comes long before", () => {
    const shown = buildErrors(log(200, 50), 30).split('\n');
    expect(shown).toHaveLength(30);
    expect(shown.slice(0, 3)).toEqual(['    line 48', '    line 49', '    op.cc:1: error: no']);
    expect(shown.at(-1)).toBe('    line 199');
  });
});
