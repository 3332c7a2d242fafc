import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../native/package_root';
import { sentence } from './errors';
import { buildOutputs } from './native_build';
import { checkPlatform, nvidiaGpus, querySmi } from './platform';
import { hashInputs, readStamp } from './state';
import { findTfjs, linksIntact, tensorflowLinks, type TfjsPackage } from './tfjs';
import { flavourName } from './tensorflow';

/** One line of the doctor's report. */
export interface Check {
  what: string;
  ok: boolean;
  detail: string;
}

const oldestNode = 20;

/**
 * Tries, in a child process that may crash, what an app would do: load tfjs, load the op library, run the op.
 * @param tfjsFolder folder of @tensorflow/tfjs-node-gpu or @tensorflow/tfjs-node
 * @returns the checks up to the first that failed
 */
export function probe(tfjsFolder: string): Promise<Check[]> {
  const child = spawn(process.execPath, [join(__dirname, 'probe.js'), tfjsFolder], {
    // the report has a channel of its own, for TensorFlow writes to the standard ones
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    env: { TF_CPP_MIN_LOG_LEVEL: '2', TF_FORCE_GPU_ALLOW_GROWTH: 'true', ...process.env },
  });
  let report = '';
  let errors = '';
  child.stdio[3]?.on('data', (chunk: Buffer) => (report += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  return new Promise((done) => {
    child.on('error', (error) => done([{ what: 'Starting Node.js', ok: false, detail: error.message }]));
    child.on('close', (code, signal) => {
      const checks = report
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Check);
      if (code !== 0 && checks.every((check) => check.ok)) {
        const last = errors.trim().split('\n').slice(-5).join('\n');
        const after = checks.at(-1);
        const detail = `Node.js ended with ${signal ?? `code ${code}`}${last ? `; its last words: ${last}` : '.'}`;
        checks.push({ what: after ? `What comes after '${after.what}'` : 'The first step', ok: false, detail });
      }
      done(checks);
    });
  });
}

/** Checks everything that an app in `cwd` needs, and hands each check over as soon as it is known. */
export async function doctor(print: (check: Check) => void, cwd = process.cwd()): Promise<boolean> {
  let healthy = true;
  const say = (what: string, ok: boolean, detail: string) => {
    healthy &&= ok;
    print({ what, ok, detail });
  };
  const root = packageRoot();
  const node = process.versions.node;
  const enough = Number.parseInt(node, 10) >= oldestNode;
  say('Node.js', enough, enough ? node : `${node} is too old: install version ${oldestNode} or later`);
  let tfjs: TfjsPackage;
  try {
    checkPlatform();
    say('Platform', true, `${process.platform}-${process.arch}`);
    tfjs = findTfjs(cwd, root);
  } catch (error) {
    say('Platform and packages', false, sentence(error));
    return false;
  }
  say('tfjs', true, `${tfjs.name} ${tfjs.version} in ${tfjs.folder}`);
  const stamp = readStamp(root);
  const gpus = nvidiaGpus();
  const advice = "run 'npx tfjs-lm-head setup'";
  if (!stamp) {
    say('Setup', false, `has not been completed: ${advice}`);
    return false;
  }
  const { plan } = stamp;
  const current = stamp.inputs === hashInputs({ root, tfjs, plan, gpus });
  say('Setup', current, current ? 'complete' : `was made for other sources, packages or another machine: ${advice}`);
  const linked = linksIntact(tensorflowLinks(tfjs, join(root, stamp.tensorflow), plan.flavour));
  say(
    'TensorFlow',
    linked,
    linked ? `${plan.tensorflow} (${flavourName[plan.flavour]})` : `its libraries are gone: ${advice}`,
  );
  const missing = buildOutputs(root, tfjs).filter((path) => !existsSync(path));
  const kernels = plan.cudaKernels ? `CPU and CUDA (${stamp.architectures.join(', ')})` : 'CPU';
  say(
    'Native build',
    missing.length === 0,
    missing.length === 0 ? `kernels: ${kernels}` : `${missing.join(', ')} gone: ${advice}`,
  );
  const driver = querySmi('driver_version')?.[0];
  say(
    'GPU',
    true,
    gpus.length > 0 ? `${gpus.join(', ')}, driver ${driver ?? 'unknown'}` : 'none, so everything runs on the CPU',
  );
  if (linked && missing.length === 0)
    for (const check of await probe(tfjs.folder)) say(check.what, check.ok, check.detail);
  return healthy;
}
