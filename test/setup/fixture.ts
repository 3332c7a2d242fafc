import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as ts from 'typescript';

const repository = dirname(dirname(__dirname));

/** What the stub programs stand for. Each appends its arguments to the file `calls`. */
const stubs = {
  // $STUB_PIP: a file whose text pip fails with; $STUB_HANG: pip stops halfway, as if it were waiting for the network
  python3: `
case "$*" in
  '-m pip --version') echo "pip \${STUB_PIP_VERSION:-23.2.1} from somewhere (python 3.11)"; exit 0 ;;
esac
while [ $# -gt 0 ]; do
  case "$1" in --target) target=$2 ;; nvidia-*|*nvcc.txt) kind=nvcc ;; *tensorflow-cuda.txt|tensorflow==*) kind=cuda ;; esac
  shift
done
if [ -n "$STUB_PIP" ]; then cat "$STUB_PIP" >&2; exit 1; fi
if [ "$kind" = nvcc ]; then
  mkdir -p "$target/nvidia/cu13/bin" "$target/nvidia/cu13/include"
  touch "$target/nvidia/cu13/include/cuda_runtime.h"
  printf '%s\\n' '#!/bin/sh' 'echo release 13.0, V13.0.88' 'for a in 80 86 89 90 100 120; do echo compute_$a; done' > "$target/nvidia/cu13/bin/nvcc"
  chmod +x "$target/nvidia/cu13/bin/nvcc"
  exit 0
fi
mkdir -p "$target/tensorflow/include/tensorflow/c" "$target/tensorflow/python" "$target/bin"
echo cc > "$target/tensorflow/libtensorflow_cc.so.2"
if [ -n "$STUB_HANG" ]; then exec sleep 20; fi
echo framework > "$target/tensorflow/libtensorflow_framework.so.2"
touch "$target/tensorflow/include/tensorflow/c/c_api.h"
if [ "$kind" = cuda ]; then for name in cuda_runtime cublas cudnn; do mkdir -p "$target/nvidia/$name/lib"; done; fi`,
  // $STUB_CMAKE: the number of lines that the build fails with; $STUB_HANG_BUILD: the build stops halfway
  cmake: `
case "$1" in
  --version) echo "cmake version \${STUB_CMAKE_VERSION:-3.25.1}"; exit 0 ;;
  --build)
    if [ -n "$STUB_CMAKE" ]; then i=1; while [ $i -le $STUB_CMAKE ]; do echo "line $i"; i=$((i + 1)); done; exit 2; fi
    . "$2/outputs"
    mkdir -p "$output" "$tfjs/lib/napi-v8"
    echo half > "$output/libtfjs_lm_head_ops.so"
    if [ -n "$STUB_HANG_BUILD" ]; then exec sleep 20; fi
    echo ops > "$output/libtfjs_lm_head_ops.so"; echo addon > "$output/tfjs_lm_head_addon.node"
    echo binding > "$tfjs/lib/napi-v8/tfjs_binding.node"
    exit 0 ;;
esac
while [ $# -gt 0 ]; do
  case "$1" in -B) build=$2 ;; -DOUTPUT_DIR=*) output=\${1#*=} ;; -DTFJS_NODE=*) tfjs=\${1#*=} ;; esac
  shift
done
mkdir -p "$build"; printf 'output="%s"\\ntfjs="%s"\\n' "$output" "$tfjs" > "$build/outputs"`,
  'g++': `cat > /dev/null; [ -z "$STUB_OLD_COMPILER" ]`,
  make: ':',
};
export type Stub = keyof typeof stubs;

export interface Run {
  status: number | null;
  stdout: string;
  stderr: string;
}

/**
 * A folder with an app, an installed copy of this package's command-line tool, and a PATH of stub programs alone: all
 * that setup does happens for real, but for what Python, CMake and the compiler would do.
 */
export class Fixture {
  readonly root = mkdtempSync(join(tmpdir(), 'setup-test-'));
  readonly app = join(this.root, 'app');
  readonly tfjs = join(this.app, 'node_modules', '@tensorflow', 'tfjs-node-gpu');
  readonly package = join(this.app, 'node_modules', 'tfjs-lm-head');
  readonly cache = join(this.app, 'node_modules', '.cache', 'tfjs-lm-head');
  readonly bin = join(this.root, 'bin');
  private readonly calls = join(this.root, 'calls');

  constructor() {
    for (const folder of [this.app, this.bin, this.tfjs, join(this.package, 'kernels')])
      mkdirSync(folder, { recursive: true });
    writeJson(join(this.app, 'package.json'), { name: 'app' });
    writeJson(join(this.tfjs, 'package.json'), { name: '@tensorflow/tfjs-node-gpu', version: '4.22.0' });
    writeJson(join(this.package, 'package.json'), { name: 'tfjs-lm-head', version: '0.0.0' });
    writeFileSync(join(this.package, 'kernels', 'op.cc'), '// an op\n');
    cpSync(join(repository, 'requirements'), join(this.package, 'requirements'), { recursive: true });
    for (const name of ['commander', 'node-addon-api', 'node-api-headers']) {
      symlinkSync(join(repository, 'node_modules', name), join(this.app, 'node_modules', name));
    }
    for (const folder of ['setup', 'native'])
      transpile(join(repository, 'src', folder), join(this.package, 'dist', 'src', folder));
    // the real probe loads TensorFlow
    writeFileSync(
      join(this.package, 'dist', 'src', 'setup', 'probe.js'),
      `require('node:fs').writeSync(3, JSON.stringify({ what: 'Loading tfjs', ok: true, detail: 'a stub' }) + '\\n');`,
    );
    for (const name of Object.keys(stubs) as Stub[]) this.addProgram(name, stubs[name]);
  }

  addProgram(name: string, script: string, folder = this.bin): string {
    const path = join(folder, name);
    mkdirSync(folder, { recursive: true });
    writeFileSync(path, `#!/bin/sh\nPATH=/usr/bin:/bin\necho "${name} $*" >> '${this.calls}'\n${script}\n`);
    chmodSync(path, 0o755);
    return path;
  }

  removeProgram(name: Stub): void {
    rmSync(join(this.bin, name));
  }

  /** Runs the command-line tool in the app's folder. */
  run(args: string[], env: Record<string, string> = {}): Run {
    const { status, stdout, stderr } = spawnSync(process.execPath, [this.cli, ...args], {
      ...this.surroundings(env),
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  }

  start(args: string[], env: Record<string, string> = {}): ChildProcess {
    return spawn(process.execPath, [this.cli, ...args], { ...this.surroundings(env), stdio: 'ignore' });
  }

  private get cli(): string {
    return join(this.package, 'dist', 'src', 'setup', 'cli.js');
  }

  private surroundings(env: Record<string, string>) {
    return { cwd: this.app, env: { PATH: this.bin, ...env } };
  }

  /** Command lines of the stub programs since the last call of this method. */
  takeCalls(): string[] {
    const lines = existsSync(this.calls) ? readFileSync(this.calls, 'utf8').trim().split('\n') : [];
    rmSync(this.calls, { force: true });
    return lines;
  }

  dispose(): void {
    rmSync(this.root, { recursive: true, force: true });
  }
}

function writeJson(path: string, value: unknown): void {
  writeFileSync(path, JSON.stringify(value));
}

function transpile(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from).filter((file) => file.endsWith('.ts'))) {
    const compilerOptions = { module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ES2022 };
    const { outputText } = ts.transpileModule(readFileSync(join(from, name), 'utf8'), { compilerOptions });
    writeFileSync(join(to, name.replace(/\.ts$/, '.js')), outputText);
  }
}

/** Waits until a condition holds; throws after ten seconds. */
export async function until(condition: () => boolean): Promise<void> {
  for (const end = Date.now() + 10000; !condition();) {
    if (Date.now() > end) throw new Error('waited for 10 s in vain');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
