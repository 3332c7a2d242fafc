import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs-core';
import { lmHeadTopK, registerLmHeadKernels } from 'tfjs-lm-head';
import type * as LoadModule from '../../src/native/load';
import { activate } from '../backends';

const KERNELS = [
  'LmHeadTopK',
  'LmHeadScores',
  'LmHeadRanks',
  'LmHeadDraw',
  'PackHalf',
  'BinarizeHead',
  'PackBinary',
  'UnpackBinary',
  'QuantizeActivations',
  'LocalArgmaxCandidates',
  'PickFromCandidates',
  'VocabParallelArgmax',
];

describe('registration', () => {
  it.each(['cpu', 'tensorflow', 'webgl', 'webgpu', 'wasm'])('is done for %s on import', (backend) => {
    for (const kernel of KERNELS) expect(tf.getKernel(kernel, backend)).toBeDefined();
  });

  it('is done for another backend when asked, and again without a warning', async () => {
    await activate('cpu');
    tf.env().set('IS_TEST', false); // tfjs warns only outside its own tests
    tf.registerBackend('another', tf.findBackendFactory('cpu'));
    expect(tf.getKernel('LmHeadTopK', 'another')).toBeUndefined();
    const warn = jest.spyOn(console, 'warn');
    registerLmHeadKernels('another');
    registerLmHeadKernels('another');
    registerLmHeadKernels();
    registerLmHeadKernels();
    expect(warn).not.toHaveBeenCalled();
    warn.mockRestore();
    tf.env().set('IS_TEST', true);
    for (const kernel of KERNELS) expect(tf.getKernel(kernel, 'another')).toBeDefined();
    expect(lmHeadTopK([1], [[1], [2]], 1).indices.arraySync()).toEqual([1]);
    tf.removeBackend('another');
  });

  it('gives one kernel config a backend of its own', () => {
    const backendOf = (name: string) => tf.getKernel('PackHalf', name).backendName;
    expect([backendOf('cpu'), backendOf('wasm'), backendOf('tensorflow')]).toEqual(['cpu', 'wasm', 'tensorflow']);
  });
});

describe('the native library', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'lm-head-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  /** Calls the kernel of 'tensorflow' in a package that lies in `folder`. */
  function callKernel(): unknown {
    let result: unknown;
    jest.isolateModules(() => {
      jest.doMock('../../src/native/package_root', () => ({ packageRoot: () => folder }));
      const { loadNative } = jest.requireActual<typeof LoadModule>('../../src/native/load');
      result = loadNative();
    });
    jest.dontMock('../../src/native/package_root');
    return result;
  }

  it('is missed with the command that builds it', () => {
    expect(callKernel).toThrow(/tensorflow.*have not been built.*does not exist.*run 'npx tfjs-lm-head setup'/s);
  });

  it('is missed with that command when it cannot be loaded', () => {
    const native = join(folder, 'build', 'native');
    mkdirSync(native, { recursive: true });
    writeFileSync(join(native, 'tfjs_lm_head_addon.node'), 'not a library');
    writeFileSync(join(native, 'libtfjs_lm_head_ops.so'), 'not a library');
    expect(callKernel).toThrow(/tensorflow.*cannot be loaded.*Run 'npx tfjs-lm-head setup'/s);
  });
});
