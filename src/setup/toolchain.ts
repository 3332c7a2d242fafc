import { SetupError } from './errors';
import { quickOutput, which } from './run_command';

/** The programs that the native build uses. */
export interface Toolchain {
  cmake: string;
  compiler: string;
  /** CMake's generator; undefined leaves the choice to CMake, or to CMAKE_GENERATOR. */
  generator: string | undefined;
}

const oldestCmake = [3, 20] as const;

/**
 * Finds CMake, make or ninja, and a C++17 compiler ($CXX, else c++, g++ or clang++ in PATH), which it tries.
 * @throws SetupError for the first that is missing
 */
export function findToolchain(env = process.env): Toolchain {
  return { compiler: findCompiler(env), cmake: findCmake(env), generator: findGenerator(env) };
}

const compilerRemedy =
  "install GCC 9 or later (on Debian or Ubuntu: 'apt-get install g++'), or name one with CXX=/path/to/g++";

function findCompiler(env: NodeJS.ProcessEnv): string {
  const named = env['CXX'];
  const candidates = named ? [named] : ['c++', 'g++', 'clang++'];
  const compiler = candidates.map((name) => which(name, env)).find((path) => path !== undefined);
  if (compiler === undefined) {
    throw new SetupError(
      named
        ? `CXX is ${named}, which is no program: correct or unset it.`
        : `A C++17 compiler is missing: ${compilerRemedy}.`,
    );
  }
  // headers of C++17's library as well, for compilers come without them, or with old ones
  const lines = ['#include <optional>', '#if __cplusplus < 201703L', '#error', '#endif'];
  const program = [...lines, 'int main() { return *std::optional<int>(0); }', ''].join('\n');
  const flags = ['-std=c++17', '-x', 'c++', '-fsyntax-only', '-'];
  if (quickOutput(compiler, flags, program, env) === undefined) {
    throw new SetupError(`${compiler} cannot compile C++17: ${compilerRemedy}.`);
  }
  return compiler;
}

function findCmake(env: NodeJS.ProcessEnv): string {
  const remedy =
    "install 3.20 or later (on Debian or Ubuntu: 'apt-get install cmake'; anywhere: 'python3 -m pip install cmake')";
  const cmake = which('cmake', env);
  if (cmake === undefined) throw new SetupError(`CMake is missing: ${remedy}.`);
  const match = /version (\d+)\.(\d+)/.exec(quickOutput(cmake, ['--version'], undefined, env) ?? '');
  if (!match) throw new SetupError(`${cmake} does not run: ${remedy}.`);
  const [major, minor] = [Number(match[1]), Number(match[2])];
  if (major < oldestCmake[0] || (major === oldestCmake[0] && minor < oldestCmake[1])) {
    throw new SetupError(`${cmake} is CMake ${major}.${minor}, which is too old: ${remedy}.`);
  }
  return cmake;
}

function findGenerator(env: NodeJS.ProcessEnv): string | undefined {
  if (env['CMAKE_GENERATOR'] || which('make', env) || which('gmake', env)) return undefined;
  if (which('ninja', env)) return 'Ninja';
  throw new SetupError("make is missing: install it (on Debian or Ubuntu: 'apt-get install make'), or ninja.");
}
