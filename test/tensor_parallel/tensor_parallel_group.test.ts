/** What TensorParallelGroup asks of the native library, which is a stand-in here: there may be no GPU. */
import * as tf from '@tensorflow/tfjs-core';
import '@tensorflow/tfjs-backend-cpu';
import { LmHead, lmHeadTopK, TensorParallelGroup, vocabParallelArgmax } from 'tfjs-lm-head';
import { loadNative } from '../../src/native/load';
import { activate } from '../backends';

jest.mock('../../src/native/load');

const native = {
  cudaKernels: jest.fn(() => true),
  openTensorParallelGroup: jest.fn(() => 7),
  failTensorParallelGroup: jest.fn(),
  closeTensorParallelGroup: jest.fn(),
  tensorParallelGroupError: jest.fn(() => ''),
};
const FOUR = { RANK: '1', WORLD_SIZE: '4', MASTER_ADDR: 'node0', MASTER_PORT: '29500' };
const VARIABLES = [...Object.keys(FOUR), 'TORCHELASTIC_USE_AGENT_STORE'];

type CallOfOp = { name: string; attrs: Record<string, unknown>; inputs: number[][]; outputs: number };
let calls: CallOfOp[];
/** What the next native op throws. */
let nativeError: Error | undefined;

/** tfjs's cpu backend as if it were that of tfjs-node on a GPU; it notes which native ops are called. */
function pretendGpu(): tf.KernelBackend {
  const executeMultipleOutputs = (
    name: string,
    attrs: { name: string; value: unknown }[],
    inputs: tf.TensorInfo[],
    outputs: number,
  ) => {
    const values = Object.fromEntries(attrs.map((attr) => [attr.name, attr.value]));
    calls.push({ name, attrs: values, inputs: inputs.map(({ shape }) => shape), outputs });
    if (nativeError !== undefined) throw nativeError;
    return Array.from({ length: outputs }, () => tf.tensor1d([5], 'int32'));
  };
  const backend = (tf.findBackendFactory('cpu') as () => tf.KernelBackend)();
  return Object.assign(backend, { isUsingGpuDevice: true, binding: {}, executeMultipleOutputs });
}

beforeAll(() => {
  jest.mocked(loadNative).mockReturnValue(native as unknown as ReturnType<typeof loadNative>);
  const stock = tf.getKernelsForBackend('cpu').filter(({ kernelName }) => !tf.getKernel(kernelName, 'tensorflow'));
  for (const kernel of stock) tf.registerKernel({ ...kernel, backendName: 'tensorflow' });
  tf.registerBackend('tensorflow', pretendGpu);
});

beforeEach(async () => {
  calls = [];
  nativeError = undefined;
  for (const name of VARIABLES) delete process.env[name];
  jest.clearAllMocks();
  await tf.setBackend('tensorflow');
});

const create = (options: Partial<Parameters<typeof TensorParallelGroup.create>[0]> = {}) =>
  TensorParallelGroup.create({ rank: 0, worldSize: 2, address: 'host:1', ...options });

describe('TensorParallelGroup.fromEnv', () => {
  const opened = () => native.openTensorParallelGroup.mock.calls as unknown[][];

  it('reads the variables of torchrun', () => {
    Object.assign(process.env, FOUR);
    const group = TensorParallelGroup.fromEnv();
    expect([group.rank, group.worldSize, group.isClosed]).toEqual([1, 4, false]);
    TensorParallelGroup.fromEnv({ timeoutMs: 500 });
    expect(opened()).toEqual([
      [1, 4, 'node0', 29500, 60000],
      [1, 4, 'node0', 29500, 500],
    ]);
  });

  it("takes the next port where torchrun's own store has that one", () => {
    Object.assign(process.env, FOUR, { TORCHELASTIC_USE_AGENT_STORE: 'True' });
    TensorParallelGroup.fromEnv();
    process.env['TORCHELASTIC_USE_AGENT_STORE'] = 'False';
    TensorParallelGroup.fromEnv();
    expect(opened().map((call) => call[3])).toEqual([29501, 29500]);
  });

  it('needs neither an address nor NCCL for one rank', () => {
    Object.assign(process.env, { RANK: '0', WORLD_SIZE: '1' });
    const group = TensorParallelGroup.fromEnv();
    expect([group.rank, group.worldSize]).toEqual([0, 1]);
    expect(opened()).toEqual([]);
  });

  // prettier-ignore
  it.each([
    ['RANK', undefined, 'be an integer in [0, 3], but it is not set'],
    ['RANK', '4', "be an integer in [0, 3], but got '4'"],
    ['RANK', '-1', "be an integer in [0, 3], but got '-1'"],
    ['RANK', '1.5', "be an integer in [0, 3], but got '1.5'"],
    ['RANK', '', "be an integer in [0, 3], but got ''"],
    ['WORLD_SIZE', undefined, 'be an integer in [1, 2147483647], but it is not set'],
    ['WORLD_SIZE', '0', "be an integer in [1, 2147483647], but got '0'"],
    ['WORLD_SIZE', 'four', "be an integer in [1, 2147483647], but got 'four'"],
    ['MASTER_ADDR', undefined, 'name the host of rank 0, but it is not set'],
    ['MASTER_ADDR', '', "name the host of rank 0, but got ''"],
    ['MASTER_PORT', undefined, 'be an integer in [1, 65535], but it is not set'],
    ['MASTER_PORT', '65536', "be an integer in [1, 65535], but got '65536'"],
    ['MASTER_PORT', '0x10', "be an integer in [1, 65535], but got '0x10'"],
  ])('refuses %s = %j', (name, value, message) => {
    Object.assign(process.env, FOUR);
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
    expect(() => TensorParallelGroup.fromEnv()).toThrow(
      `Error in TensorParallelGroup.fromEnv: environment variable ${name} must ${message}.`,
    );
    expect(opened()).toEqual([]);
  });

  it('refuses a port without a next one under torchrun', () => {
    Object.assign(process.env, FOUR, { MASTER_PORT: '65535', TORCHELASTIC_USE_AGENT_STORE: 'True' });
    expect(() => TensorParallelGroup.fromEnv()).toThrow('MASTER_PORT must be an integer in [1, 65534]');
  });

  it('refuses other options and times', () => {
    Object.assign(process.env, FOUR);
    expect(() => TensorParallelGroup.fromEnv({ rank: 1 } as object)).toThrow("keys than timeoutMs, but got 'rank'");
    expect(() => TensorParallelGroup.fromEnv({ timeoutMs: 0 })).toThrow(
      "'timeoutMs' must be an integer in [1, 21474836",
    );
  });
});

describe('TensorParallelGroup.create', () => {
  it('takes names and addresses of hosts', () => {
    create({ address: 'gpu-7.local:29500' });
    create({ address: '10.0.0.1:1', timeoutMs: 5 });
    create({ address: '[fe80::1]:65535' });
    expect(native.openTensorParallelGroup.mock.calls as unknown[][]).toEqual([
      [0, 2, 'gpu-7.local', 29500, 60000],
      [0, 2, '10.0.0.1', 1, 5],
      [0, 2, 'fe80::1', 65535, 60000],
    ]);
  });

  // prettier-ignore
  it.each<[string, object, string]>([
    ['a rank that is not in the world', { rank: 2 }, "argument 'rank' must be an integer in [0, 1], but got 2"],
    ['no rank', { rank: undefined }, "argument 'rank' must be an integer in [0, 1], but got undefined"],
    ['a world without ranks', { worldSize: 0 }, "argument 'worldSize' must be an integer in [1, 2147483647], but got 0"],
    ['a fractional time', { timeoutMs: 0.5 }, "argument 'timeoutMs' must be an integer in [1, 2147483647], but got 0.5"],
    ['no address', { address: undefined }, "argument 'address' must be 'host:port' of rank 0, with a port in [1, 65535], but got undefined"],
    ['an address without a port', { address: 'host' }, "argument 'address' must be 'host:port' of rank 0, with a port in [1, 65535], but got 'host'"],
    ['a port out of range', { address: 'host:70000' }, "argument 'address' must be 'host:port' of rank 0, with a port in [1, 65535], but got 'host:70000'"],
    ['a bare IPv6 address', { address: 'fe80::1:29500' }, "argument 'address' must be 'host:port' of rank 0, with a port in [1, 65535], but got 'fe80::1:29500'"],
    ['an unknown option', { port: 1 }, "argument 'options' must have no other keys than rank, worldSize, address, timeoutMs, but got 'port'"],
  ])('refuses %s', (_what, options, message) => {
    expect(() => create(options)).toThrow(`Error in TensorParallelGroup.create: ${message}`);
    expect(native.openTensorParallelGroup).not.toHaveBeenCalled();
  });

  it('says that NCCL needs GPUs, and what works without them', async () => {
    await activate('cpu');
    expect(() => create()).toThrow(
      "Error in TensorParallelGroup.create: NCCL needs a GPU in every process, but this one computes on the CPU (backend 'cpu'). " +
        "On CPUs give the ops a transport of your own as 'group': {rank, worldSize, allGather}.",
    );
    const alone = create({ worldSize: 1 });
    expect(tf.tidy(() => vocabParallelArgmax([1, 3, 2], { group: alone }).dataSync()[0])).toBe(1);
  });

  it('says when the kernels were built without CUDA', () => {
    native.cudaKernels.mockReturnValueOnce(false);
    expect(() => create()).toThrow("the kernels were built without CUDA: run 'npx tfjs-lm-head setup --cuda'");
  });

  it('hands on why the group did not come about', () => {
    native.openTensorParallelGroup.mockImplementationOnce(() => {
      throw new Error('rank 1 has not come within 60000 ms');
    });
    expect(() => create()).toThrow('Error in TensorParallelGroup.create: rank 1 has not come within 60000 ms');
  });
});

describe('ops with a TensorParallelGroup', () => {
  const argmax = (group: TensorParallelGroup) =>
    tf.tidy(() => vocabParallelArgmax(tf.zeros([1, 8]), { vocabStart: 8, group }).shape);
  const topK = (group: TensorParallelGroup, k = 20) =>
    tf.tidy(
      () => lmHeadTopK(tf.zeros([1, 3]), tf.zeros<tf.Rank.R2>([8, 3]), k, { vocabStart: 8, group }).indices.shape,
    );

  it('are one native op each, which knows the group', () => {
    const group = create();
    argmax(group);
    topK(group);
    expect(calls).toMatchObject([
      { name: 'VocabParallelArgmax', attrs: { N: 1, group: 7, vocab_start: 8, vocab_size: 8 }, outputs: 1 },
      { name: 'LmHeadTopK', attrs: { group: 7, k: 20, vocab_start: 8 }, outputs: 2 },
    ]);
  });

  it('take part without an id of their own', () => {
    const group = create();
    tf.tidy(() => {
      vocabParallelArgmax(tf.zeros([1, 0]), { group });
      const shard = LmHead.shard([[1, 2]], { rank: 1, worldSize: 2 });
      lmHeadTopK([1, 2], shard, 1, { logSumExp: true, group });
      shard.dispose();
    });
    expect(calls.map(({ attrs, inputs }) => [attrs['group'], inputs])).toEqual([
      [7, [[1, 0]]],
      [7, [[2], [0, 2]]],
    ]);
  });

  it('know nothing of a group of one', () => {
    const group = create({ worldSize: 1 });
    argmax(group);
    expect(calls[0].attrs).not.toHaveProperty('group');
    expect(() => topK(group)).toThrow("'k' must be an integer in [0, 8], but got 20");
    group.close();
    group.close();
    expect(native.closeTensorParallelGroup).not.toHaveBeenCalled();
    expect(() => argmax(group)).toThrow(
      "Error in vocabParallelArgmax: argument 'group' must be a group that is open, but got one that has been closed.",
    );
  });

  it('refuse a k over the whole vocabulary where the head knows it', () => {
    tf.tidy(() => {
      const shard = LmHead.shard(tf.zeros<tf.Rank.R2>([100, 2]), { rank: 0, worldSize: 2 });
      expect(() => lmHeadTopK([1, 2], shard, 101, { group: create() })).toThrow(
        "Error in lmHeadTopK: argument 'k' must be an integer in [0, 100], but got 101.",
      );
      shard.dispose();
    });
  });

  it('say that the group has failed, and why', () => {
    const group = create();
    const reason = 'rank 1 has not come to LmHeadTopK within 10000 ms';
    expect(group.error).toBeUndefined();
    native.tensorParallelGroupError.mockReturnValueOnce(reason).mockReturnValueOnce(reason);
    expect([group.error, create({ worldSize: 1 }).error]).toEqual([reason, undefined]);
    nativeError = new Error('LmHeadTopK on rank 0 of 2: the tensor-parallel group has failed');
    expect(() => topK(group)).toThrow(`Error in lmHeadTopK: the group has failed and can only be closed: ${reason}`);
    expect(native.failTensorParallelGroup).not.toHaveBeenCalled();
  });

  it('fail the group of all ranks, whatever they throw', async () => {
    const group = create({ rank: 1 });
    const { numTensors } = tf.memory();
    const failures = () => (native.failTensorParallelGroup.mock.calls as unknown[][]).splice(0);
    nativeError = new Error('OOM when allocating tensor');
    expect(() => topK(group)).toThrow(nativeError);
    expect(failures()).toEqual([[7, 'rank 1 could not run lmHeadTopK: OOM when allocating tensor']]);
    expect(() => argmax(group)).toThrow(nativeError);
    expect(failures()).toEqual([[7, 'rank 1 could not run vocabParallelArgmax: OOM when allocating tensor']]);
    nativeError = undefined;
    expect(() => topK(group, -1)).toThrow("argument 'k' must be");
    expect(failures()).toMatchObject([[7, expect.stringMatching(/^rank 1 could not run lmHeadTopK: .* 'k' must be/)]]);
    expect(() => vocabParallelArgmax([1], { group, vocabSise: 1 } as object)).toThrow("got 'vocabSise'");
    expect(failures()).toHaveLength(1);
    await activate('cpu');
    expect(() => argmax(group)).toThrow('Error in vocabParallelArgmax: NCCL needs a GPU in every process');
    expect(failures()).toHaveLength(1);
    await tf.setBackend('tensorflow');
    argmax(group); // the native library knows that the group has failed
    expect(failures()).toEqual([]);
    expect(tf.memory().numTensors).toBe(numTensors);
  });

  it('close a group with the block that uses it', () => {
    {
      using group = create();
      expect(group.isClosed).toBe(false);
    }
    expect(native.closeTensorParallelGroup.mock.calls as unknown[][]).toEqual([[7]]);
  });

  it('refuse a group that is closed', () => {
    const group = create();
    const { numTensors } = tf.memory();
    group.close();
    group.close();
    group[Symbol.dispose]();
    expect(native.closeTensorParallelGroup.mock.calls as unknown[][]).toEqual([[7]]);
    expect(group.isClosed).toBe(true);
    expect(() => topK(group)).toThrow("Error in lmHeadTopK: argument 'group' must be a group that is open");
    expect(calls).toEqual([]);
    expect(native.failTensorParallelGroup).not.toHaveBeenCalled();
    expect(tf.memory().numTensors).toBe(numTensors);
  });
});
