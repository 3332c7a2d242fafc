/**
 * The suites of test/ops with backend 'tensorflow' on a GPU; they fail where there is none. TensorFlow and its workers read
 * these variables when they start.
 */
process.env.TFJS_LM_HEAD_TEST_GPU = '1';
process.env.TF_FORCE_GPU_ALLOW_GROWTH = 'true'; // several workers share the GPU's memory
process.env.TF_CPP_MIN_LOG_LEVEL ??= '2';
process.env.NVIDIA_TF32_OVERRIDE = '0'; // tf.matMul is a reference here, and TF32 would round its inputs

module.exports = {
  ...require('./jest.config.js'),
  roots: ['<rootDir>/test/ops'],
  maxWorkers: 2,
};
