import * as tf from '@tensorflow/tfjs-node-gpu';
import { type ShardGroup, TensorParallelGroup } from 'tfjs-lm-head';
import { TcpTransport } from './tcp_transport';

export interface Joined {
  group: ShardGroup;
  /** How the ranks are joined. */
  name: string;
  close: () => void;
}

/** NCCL where this process computes on a GPU, and TCP otherwise; both from the variables of torchrun. */
export function joinGroup(timeoutMs: number): Joined {
  const { isUsingGpuDevice } = tf.backend() as tf.KernelBackend & { isUsingGpuDevice?: boolean };
  if (isUsingGpuDevice === true) {
    const group = TensorParallelGroup.fromEnv({ timeoutMs });
    return { group, name: 'NCCL', close: () => group.close() };
  }
  const { RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE } = process.env;
  const transport = new TcpTransport({
    rank: Number(RANK),
    worldSize: Number(WORLD_SIZE),
    host: MASTER_ADDR ?? '127.0.0.1',
    // torchrun itself listens at MASTER_PORT
    port: Number(MASTER_PORT) + (TORCHELASTIC_USE_AGENT_STORE === 'True' ? 1 : 0),
    timeoutMs,
  });
  return { group: transport, name: 'TCP', close: () => transport.close() };
}
