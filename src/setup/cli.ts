#!/usr/bin/env node
/** The command-line tool: `tfjs-lm-head setup`, `tfjs-lm-head doctor`. */
import { Command } from 'commander';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../native/package_root';
import { doctor } from './doctor';
import { sentence } from './errors';
import { allArchitectures, parseOptions, pinnedTensorflow, type RawOptions } from './options';
import { stopCommands } from './run_command';
import { setup } from './setup';

const { version } = JSON.parse(readFileSync(join(packageRoot(), 'package.json'), 'utf8')) as { version: string };
const program = new Command('tfjs-lm-head')
  .version(version)
  .description("Prepares tfjs's backend 'tensorflow' and this package's op library.");

program
  .command('setup')
  .description("install TensorFlow with pip, build tfjs's binding and the op library; does nothing when that is done")
  .option('--cpu', 'TensorFlow for the CPU (default without an NVIDIA GPU)')
  .option(
    '--cuda',
    'TensorFlow for CUDA and CUDA kernels (default with an NVIDIA GPU); works on a machine without one, too',
  )
  .option('--tensorflow <version>', `another TensorFlow than ${pinnedTensorflow}; its hashes are not checked`)
  .option('--cuda-kernels', 'compile the CUDA kernels with TensorFlow for the CPU, too')
  .option(
    '--architectures <list>',
    `compute capabilities to compile for, such as 90 or 80,90 (default: the GPUs' own, else all: ${allArchitectures.join(',')})`,
  )
  .addHelpText(
    'after',
    '\nUses PYTHON, CXX, CUDA_HOME and CMAKE_GENERATOR if set. Choices stay until --cpu or --cuda is passed.',
  )
  .action((raw: RawOptions) => setup(parseOptions(raw)));

program
  .command('doctor')
  .description('check everything that an app needs, one line a check')
  .action(async () => {
    const healthy = await doctor(({ what, ok, detail }) => {
      process.stdout.write(`${ok ? 'ok    ' : 'FAILED'}  ${what}: ${detail}\n`);
    });
    process.exitCode = healthy ? 0 : 1;
  });

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    stopCommands();
    process.stderr.write(`\nInterrupted; run the same command again to go on.\n`);
    process.exit(signal === 'SIGINT' ? 130 : 143);
  });
}

program.parseAsync().catch((error: unknown) => {
  process.stderr.write(`tfjs-lm-head: ${sentence(error)}\n`);
  process.exitCode = 1;
});
