import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { packageRoot } from '../native/package_root';
import * as cuda from './cuda';
import { probe } from './doctor';
import { SetupError } from './errors';
import { withLock } from './lock';
import { buildNative, buildOutputs } from './native_build';
import { makePlan, pinnedTensorflow, type Plan, type SetupOptions } from './options';
import { checkDiskSpace, checkPlatform, nvidiaGpus } from './platform';
import { Progress } from './progress';
import { findPython } from './python';
import { hashInputs, outputsHold, readStamp, writeStamp } from './state';
import * as tf from './tensorflow';
import { findTfjs, linksIntact, linkTensorflow, tensorflowLinks, type TfjsPackage } from './tfjs';
import { findToolchain } from './toolchain';
import { removePartial } from './atomic_directory';

/** Everything that the steps need to know, fixed before the first of them runs. */
interface Job {
  root: string;
  cache: string;
  requirements: string;
  tfjs: TfjsPackage;
  plan: Plan;
  userOptions: SetupOptions;
  gpus: string[];
}

/**
 * Leaves a working backend 'tensorflow' and this package's op library built. Does nothing when that is so already, and
 * goes on where an interrupted run stopped.
 * @param cwd the app's folder
 * @throws SetupError, whose message is one sentence that says what is missing and what to do
 */
export async function setup(options: SetupOptions, cwd = process.cwd()): Promise<void> {
  checkPlatform();
  const root = packageRoot();
  const tfjs = findTfjs(cwd, root);
  const gpus = nvidiaGpus();
  const isCheckout = existsSync(join(root, 'test')); // no part of the package
  const { plan, userOptions } = makePlan(options, readStamp(root)?.userOptions ?? {}, gpus.length > 0, isCheckout);
  const cache = join(tfjs.modules, '.cache', 'tfjs-lm-head');
  const job: Job = { root, cache, requirements: join(root, 'requirements'), tfjs, plan, userOptions, gpus };
  if (isDone(job)) {
    process.stderr.write(`tfjs-lm-head is set up: ${describe(plan)}. Nothing to do.\n`);
    return;
  }
  const waiting = () => process.stderr.write('Another setup is running; waiting for it to end.\n');
  await withLock(join(cache, 'setup.lock'), waiting, async () => {
    // the one that was waited for may have done it all
    if (!isDone(job)) await runSteps(job);
  });
}

function describe({ flavour, tensorflow, cudaKernels }: Plan): string {
  return `TensorFlow ${tensorflow} (${tf.flavourName[flavour]}), ${cudaKernels ? 'CPU and CUDA' : 'CPU'} kernels`;
}

function isDone(job: Job): boolean {
  const { root, tfjs, plan, cache } = job;
  const stamp = readStamp(root);
  return (
    stamp !== undefined &&
    stamp.inputs === hashInputs(job) &&
    outputsHold(root, stamp) &&
    linksIntact(tensorflowLinks(tfjs, tf.tensorflowFolder(cache, plan), plan.flavour))
  );
}

async function runSteps(job: Job): Promise<void> {
  const { root, cache, requirements, tfjs, plan, userOptions, gpus } = job;
  removePartial(cache);
  const inputs = hashInputs(job);
  const tensorflow = tf.tensorflowFolder(cache, plan);
  const progress = new Progress(plan.cudaKernels ? 6 : 5);

  const found = await progress.step('This machine', () => checkMachine(job));
  await progress.step(`TensorFlow ${plan.tensorflow} (${tf.flavourName[plan.flavour]})`, async (report) => {
    if (found.hasTensorflow) return;
    if (plan.tensorflow !== pinnedTensorflow)
      progress.say(`TensorFlow ${plan.tensorflow} is installed without checking hashes.`);
    await tf.installTensorflow({ plan, cache, python: found.python, requirements }, report);
  });
  let build: { nvcc: cuda.Nvcc; architectures: string[] } | undefined;
  if (plan.cudaKernels) {
    build = await progress.step('nvcc', async (report) => {
      if (!found.nvcc) await cuda.installNvcc({ cache, python: found.python, requirements }, report);
      const nvcc = found.nvcc ?? cuda.findPipNvcc(cache);
      if (!nvcc) throw new SetupError('The nvcc that pip installed does not run: set CUDA_HOME to a CUDA toolkit.');
      return { nvcc, architectures: cuda.chooseArchitectures(plan, nvcc) };
    });
  }
  await progress.step(`${tfjs.name} ${tfjs.version}, links to TensorFlow`, () =>
    linkTensorflow(tfjs, tensorflow, plan.flavour),
  );
  const kinds = build ? `, CUDA kernels for ${build.architectures.join(', ')}` : '';
  await progress.step(`Native build${kinds}`, (report) =>
    buildNative({ root, tfjs, tensorflow, toolchain: found.toolchain, ...(build && { cuda: build }) }, report),
  );
  await progress.step('Trying it', async () => {
    const failed = (await probe(tfjs.folder)).find((check) => !check.ok);
    if (failed) throw new SetupError(`${failed.what} failed: ${failed.detail}`);
  });
  const architectures = build?.architectures ?? [];
  writeStamp(
    root,
    { inputs, plan, userOptions, tensorflow: relative(root, tensorflow), architectures },
    buildOutputs(root, tfjs),
  );
  progress.say(
    `tfjs-lm-head is set up: ${describe(plan)}${gpus.length > 0 && plan.flavour === 'cuda' ? `, ${gpus.join(', ')}` : ''}.`,
  );
}

/** Looks for all that the later steps will need, cheap things first and before anything is downloaded. */
function checkMachine({ cache, plan, gpus }: Job) {
  const toolchain = findToolchain();
  const nvcc = plan.cudaKernels ? (cuda.findOwnNvcc() ?? cuda.findPipNvcc(cache)) : undefined;
  if (plan.flavour === 'cuda' && gpus.length > 0) cuda.checkDriver(nvcc?.version[0] ?? cuda.pipNvccMajor);
  const hasTensorflow = tf.hasTensorflow(tf.tensorflowFolder(cache, plan), plan.flavour);
  const needsNvcc = plan.cudaKernels && !nvcc;
  const bytes = (hasTensorflow ? 0 : tf.tensorflowBytes[plan.flavour]) + (needsNvcc ? cuda.pipNvccBytes : 0);
  if (bytes > 0) checkDiskSpace(cache, bytes);
  return { toolchain, nvcc, hasTensorflow, python: bytes > 0 ? findPython() : '' };
}
