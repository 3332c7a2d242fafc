import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SetupError } from './errors';
import { lastLines } from './last_lines';
import { runCommand } from './run_command';

/** The wheels are for CPython 3.12 whatever Python runs pip: only their shared libraries and headers are used. */
const target = [
  ...['--no-deps', '--no-compile', '--only-binary=:all:', '--python-version', '3.12', '--implementation', 'cp'],
  ...['_2_27', '_2_25', '_2_18', '_2_17', '2014'].flatMap((tag) => ['--platform', `manylinux${tag}_x86_64`]),
];

/**
 * Unpacks wheels into a folder with `python -m pip install --target`.
 * @param what named in error messages, such as 'TensorFlow 2.21.0'
 * @param wheels requirements such as 'tensorflow==2.21.0', or ['--require-hashes', '-r', FILE]
 * @param again what error messages ask for in the end
 * @throws SetupError with the reason in one sentence
 */
export async function pipInstall(
  {
    python,
    folder,
    what,
    wheels,
    again = 'run setup again',
  }: { python: string; folder: string; what: string; wheels: string[]; again?: string },
  report: (line: string) => void,
): Promise<void> {
  // pip unpacks in its temporary folder first; the system's may be small, so it gets one on the same disk
  const temporary = join(folder, '.pip');
  mkdirSync(temporary, { recursive: true });
  const env = {
    ...process.env,
    TMPDIR: temporary,
    PIP_USER: '0',
    PIP_REQUIRE_VIRTUALENV: '0',
    PIP_DISABLE_PIP_VERSION_CHECK: '1',
  };
  const args = [
    '-m',
    'pip',
    'install',
    '--no-input',
    '--root-user-action=ignore',
    '--target',
    folder,
    ...target,
    ...wheels,
  ];
  const { code, output } = await runCommand(python, args, { env, onLine: (line) => report(line) });
  if (code !== 0) throw pipFailure(output, what, again);
  rmSync(temporary, { recursive: true, force: true });
}

const networkTrouble = new RegExp(
  [
    'NewConnectionError|ConnectTimeout|ConnectionError|Connection (refused|reset|aborted)|Connection broken|IncompleteRead',
    'Name or service not known|Temporary failure in name resolution|getaddrinfo|Network is unreachable|No route to host',
    'ReadTimeout|Read timed out|ProxyError|SSLError|HTTP error 5\\d\\d|HTTPError: 5\\d\\d',
  ].join('|'),
);

/** Turns pip's messages into one sentence. */
function pipFailure(output: string, what: string, again: string): SetupError {
  if (/No space left on device|ENOSPC|Errno 28/.test(output)) {
    return new SetupError(`The disk became full while ${what} was being installed: free some space and ${again}.`);
  }
  if (/DO NOT MATCH THE HASHES/.test(output)) {
    return new SetupError(
      `A file that pip downloaded for ${what} is not the one that this package was tested with (its sha256 differs): ` +
        `clear pip's cache with "python3 -m pip cache purge", check the package index that pip is set to, and ${again}.`,
    );
  }
  // without network pip ends with 'No matching distribution' as well, so this comes first
  if (networkTrouble.test(output)) {
    return new SetupError(
      `pip could not reach its package index to download ${what}: check the network (and HTTPS_PROXY or PIP_INDEX_URL if you need them) and ${again}.`,
    );
  }
  if (/No matching distribution found|Could not find a version/.test(output)) {
    return new SetupError(
      `pip's package index has no wheel of ${what} for CPython 3.12 on Linux x86-64: choose another package index with PIP_INDEX_URL, or another version of TensorFlow with --tensorflow.`,
    );
  }
  return new SetupError(`pip could not install ${what}; its last lines were:\n${lastLines(output, 30)}`);
}
