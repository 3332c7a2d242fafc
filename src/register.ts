/** The one list of KernelConfigs; importing this file registers them. */
import * as tf from '@tensorflow/tfjs-core';
import * as composedLmHeadDraw from './backends/composed/lm_head_draw';
import * as composedLmHeadRanks from './backends/composed/lm_head_ranks';
import * as composedLmHeadScores from './backends/composed/lm_head_scores';
import * as composedLmHeadTopK from './backends/composed/lm_head_topk';
import { binarizeHeadConfig } from './backends/cpu/binarize_head';
import { lmHeadDrawConfig } from './backends/cpu/lm_head_draw';
import { lmHeadRanksConfig } from './backends/cpu/lm_head_ranks';
import { lmHeadScoresConfig } from './backends/cpu/lm_head_scores';
import { lmHeadTopKConfig } from './backends/cpu/lm_head_topk';
import { localArgmaxCandidatesConfig } from './backends/cpu/local_argmax_candidates';
import { packBinaryConfig, unpackBinaryConfig } from './backends/cpu/pack_binary';
import { packHalfConfig } from './backends/cpu/pack_half';
import { pickFromCandidatesConfig } from './backends/cpu/pick_from_candidates';
import { quantizeActivationsConfig } from './backends/cpu/quantize_activations';
import { vocabParallelArgmaxConfig } from './backends/cpu/vocab_parallel_argmax';
import * as tensorflowBinarizeHead from './backends/tensorflow/binarize_head';
import * as tensorflowLmHeadDraw from './backends/tensorflow/lm_head_draw';
import * as tensorflowLmHeadRanks from './backends/tensorflow/lm_head_ranks';
import * as tensorflowLmHeadScores from './backends/tensorflow/lm_head_scores';
import * as tensorflowLmHeadTopK from './backends/tensorflow/lm_head_topk';
import * as tensorflowLocalArgmaxCandidates from './backends/tensorflow/local_argmax_candidates';
import * as tensorflowPackBinary from './backends/tensorflow/pack_binary';
import * as tensorflowPackHalf from './backends/tensorflow/pack_half';
import * as tensorflowPickFromCandidates from './backends/tensorflow/pick_from_candidates';
import * as tensorflowQuantizeActivations from './backends/tensorflow/quantize_activations';
import * as tensorflowVocabParallelArgmax from './backends/tensorflow/vocab_parallel_argmax';
import { restoreNodeUtil } from './native/node_compat';

/** Kernels that only read numbers and compare, round or pack them: plain TypeScript is as good on every backend. */
const plainConfigs = [
  packHalfConfig,
  binarizeHeadConfig,
  packBinaryConfig,
  unpackBinaryConfig,
  quantizeActivationsConfig,
  localArgmaxCandidatesConfig,
  pickFromCandidatesConfig,
  vocabParallelArgmaxConfig,
];

const cpuConfigs = [lmHeadTopKConfig, lmHeadScoresConfig, lmHeadRanksConfig, lmHeadDrawConfig, ...plainConfigs];

const composedConfigs = [
  composedLmHeadTopK.lmHeadTopKConfig,
  composedLmHeadScores.lmHeadScoresConfig,
  composedLmHeadRanks.lmHeadRanksConfig,
  composedLmHeadDraw.lmHeadDrawConfig,
  ...plainConfigs,
];

const tensorflowConfigs = [
  tensorflowLmHeadTopK.lmHeadTopKConfig,
  tensorflowLmHeadScores.lmHeadScoresConfig,
  tensorflowLmHeadRanks.lmHeadRanksConfig,
  tensorflowLmHeadDraw.lmHeadDrawConfig,
  tensorflowPackHalf.packHalfConfig,
  tensorflowBinarizeHead.binarizeHeadConfig,
  tensorflowPackBinary.packBinaryConfig,
  tensorflowPackBinary.unpackBinaryConfig,
  tensorflowQuantizeActivations.quantizeActivationsConfig,
  tensorflowLocalArgmaxCandidates.localArgmaxCandidatesConfig,
  tensorflowPickFromCandidates.pickFromCandidatesConfig,
  tensorflowVocabParallelArgmax.vocabParallelArgmaxConfig,
];

/** Backends that get kernels on import even when they are loaded after this package. */
const KNOWN_BACKENDS = ['cpu', 'tensorflow', 'webgl', 'webgpu', 'wasm'];

function configsFor(backendName: string): tf.KernelConfig[] {
  if (backendName === 'cpu') return cpuConfigs;
  if (backendName === 'tensorflow') return tensorflowConfigs;
  return composedConfigs;
}

/**
 * Registers this package's kernels for a backend. Importing the package has done so for 'cpu', 'tensorflow', 'webgl',
 * 'webgpu', 'wasm' and each backend that tfjs knew then; a backend of another name that is added later needs this call.
 * 'tensorflow' runs the native kernels, 'cpu' plain TypeScript, every other backend ordinary tfjs ops. Calling it
 * again is harmless.
 * @param backendName name of the backend; by default all of those above.
 * @throws Error if `backendName` is given and is not a non-empty string.
 */
export function registerLmHeadKernels(backendName?: string): void {
  if (backendName !== undefined && (typeof backendName !== 'string' || backendName === '')) {
    throw new Error(
      `Error in registerLmHeadKernels: argument 'backendName' must be a backend's name, but got ${JSON.stringify(backendName)}.`,
    );
  }
  const backendNames = backendName === undefined ? knownBackends() : [backendName];
  for (const name of backendNames) {
    for (const config of configsFor(name)) {
      // tfjs warns when a kernel is registered twice, but a copy of another backend's kernels has to be replaced.
      if (tf.getKernel(config.kernelName, name) !== undefined) tf.unregisterKernel(config.kernelName, name);
      tf.registerKernel({ ...config, backendName: name });
    }
  }
}

function knownBackends(): Set<string> {
  return new Set([...KNOWN_BACKENDS, ...Object.keys(tf.engine().registryFactory)]);
}

restoreNodeUtil();
registerLmHeadKernels();
