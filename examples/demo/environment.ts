/**
 * Settings that TensorFlow reads once, when it is loaded: import this file before tfjs.
 * Values that the user has set stay.
 */

// With TF32, tf.matMul on the GPU keeps 10 bits of every factor. It would then be the model's own head that is inexact.
process.env['NVIDIA_TF32_OVERRIDE'] ??= '0';
// A small model needs little memory; without this TensorFlow takes nearly all that the GPU has.
process.env['TF_FORCE_GPU_ALLOW_GROWTH'] ??= 'true';
process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '2';
