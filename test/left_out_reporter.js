/**
 * Says at the end of a run what it has not tried: several GPUs, and without a GPU those tests that ran on TensorFlow's CPU
 * kernels only, which `npm run test:gpu` repeats on a GPU.
 */
const { spawnSync } = require('node:child_process');
const { join } = require('node:path');

const root = join(__dirname, '..');

/** Prints whether ops on backend 'tensorflow' run on a GPU: TensorFlow has one, and the library has kernels for it. */
const PROGRAM = `
  require('./dist/src/native/node_compat').restoreNodeUtil();
  const tf = require('@tensorflow/tfjs-node-gpu');
  const native = require('./dist/src/native/load').loadNative();
  console.log('GPU:' + (native.cudaKernels() && native.gpuCount() > 0 && tf.backend().isUsingGpuDevice));
`;

/**
 * Asked in a process of its own, for the library answers only beside a TensorFlow that has been loaded, and that takes GPU
 * memory. Undefined where they cannot be loaded: the suites themselves say why.
 */
function kernelsUseGpu() {
  const env = { ...process.env, TF_FORCE_GPU_ALLOW_GROWTH: 'true', TF_CPP_MIN_LOG_LEVEL: '2' };
  const { stdout } = spawnSync(process.execPath, ['-e', PROGRAM], { cwd: root, env, encoding: 'utf8' });
  const answer = /^GPU:(true|false)$/m.exec(stdout)?.[1];
  return answer === undefined ? undefined : answer === 'true';
}

module.exports = class LeftOutReporter {
  onRunComplete(_contexts, results) {
    console.log("Tests of several GPUs left out: run 'npm run test:gpus' on a machine with two or more.");
    const onTensorflow = results.testResults
      .flatMap((file) => file.testResults)
      .filter((test) => test.ancestorTitles.some((title) => title.endsWith('on tensorflow')));
    if (onTensorflow.length === 0 || process.env.TFJS_LM_HEAD_TEST_GPU === '1' || kernelsUseGpu()) return;
    console.log(`${onTensorflow.length} GPU tests left out: run 'npm run test:gpu' on a machine with an NVIDIA GPU.`);
  }
};
module.exports.kernelsUseGpu = kernelsUseGpu;
