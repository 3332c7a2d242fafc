/**
 * Says at the end of a run what it has not tried: several GPUs, and without a GPU those tests that ran on TensorFlow's CPU
 * kernels only, which `npm run test:gpu` repeats on a GPU.
 */
const { existsSync } = require('node:fs');
const { join } = require('node:path');

function gpuCount() {
  const addon = join(__dirname, '..', 'build', 'native', 'tfjs_lm_head_addon.node');
  if (!existsSync(addon)) return 0;
  try {
    const native = require(addon);
    return native.cudaKernels() ? native.gpuCount() : 0;
  } catch {
    return 0; // the suites themselves say why it cannot be loaded
  }
}

module.exports = class LeftOutReporter {
  onRunComplete(_contexts, results) {
    console.log("Tests of several GPUs left out: run 'npm run test:gpus' on a machine with two or more.");
    if (process.env.TFJS_LM_HEAD_TEST_GPU === '1' || gpuCount() > 0) return;
    const onTensorflow = results.testResults
      .flatMap((file) => file.testResults)
      .filter((test) => test.ancestorTitles.some((title) => title.endsWith('on tensorflow')));
    console.log(`${onTensorflow.length} GPU tests left out: run 'npm run test:gpu' on a machine with an NVIDIA GPU.`);
  }
};
