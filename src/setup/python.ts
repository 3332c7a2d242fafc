import { SetupError } from './errors';
import { quickOutput, which } from './run_command';

/** The first pip that takes several --platform options. */
const oldestPip = 21;
const install =
  "install them (on Debian or Ubuntu: 'apt-get install python3-pip'), or name another one with PYTHON=/path/to/python3";

/**
 * Finds a Python whose pip can fetch wheels: $PYTHON, else python3 or python in PATH. Its own version does not matter,
 * for nothing is installed into it and nothing runs in it.
 * @returns the path of the interpreter
 * @throws SetupError when there is none, or none with a usable pip
 */
export function findPython(env = process.env): string {
  const named = env['PYTHON'];
  const python = named ? which(named, env) : (which('python3', env) ?? which('python', env));
  if (!python) {
    throw new SetupError(
      named
        ? `PYTHON is ${named}, which is no program: correct or unset it.`
        : `Python 3 with pip is missing: ${install}.`,
    );
  }
  const answer = quickOutput(python, ['-m', 'pip', '--version'], undefined, env);
  const version = Number(/^pip (\d+)/m.exec(answer ?? '')?.[1]);
  if (Number.isNaN(version)) throw new SetupError(`${python} has no pip: ${install}.`);
  if (version < oldestPip) {
    throw new SetupError(
      `The pip of ${python} is version ${version} and setup needs ${oldestPip} or later: run '${python} -m pip install --upgrade pip'.`,
    );
  }
  return python;
}
