/** What the KernelConfigs of 'tensorflow' share: tfjs-node's backend, as far as they use it, and the call itself. */
import type { Tensor, TensorInfo } from '@tensorflow/tfjs-core';
import { loadNative } from '../../native/load';

interface OpAttr {
  name: string;
  type: number;
  value: number | boolean | string;
}

interface NodeBackend {
  binding: {
    TF_ATTR_BOOL: number;
    TF_ATTR_INT: number;
    TF_ATTR_STRING: number;
    TF_ATTR_TYPE: number;
    TF_FLOAT: number;
    TF_INT32: number;
  };
  executeMultipleOutputs(name: string, attrs: OpAttr[], inputs: TensorInfo[], outputs: number): Tensor[];
}

/** Attributes of the native op by name; a dtype is written as `{ dtype }`. */
export type OpAttrs = Record<string, number | boolean | string | { dtype: string }>;

function opAttr({ binding }: NodeBackend, name: string, value: OpAttrs[string]): OpAttr {
  switch (typeof value) {
    case 'number':
      return { name, type: binding.TF_ATTR_INT, value };
    case 'boolean':
      return { name, type: binding.TF_ATTR_BOOL, value };
    case 'string':
      return { name, type: binding.TF_ATTR_STRING, value };
    default:
      return { name, type: binding.TF_ATTR_TYPE, value: value.dtype === 'int32' ? binding.TF_INT32 : binding.TF_FLOAT };
  }
}

/**
 * Runs a native op. The first call of the process loads the library; where that fails it throws, for nothing else
 * may take the op's place unnoticed.
 */
export function runOp(backend: object, name: string, attrs: OpAttrs, inputs: TensorInfo[], outputs: number): Tensor[] {
  loadNative();
  const node = backend as NodeBackend;
  const opAttrs = Object.keys(attrs).map((key) => opAttr(node, key, attrs[key]));
  return node.executeMultipleOutputs(name, opAttrs, inputs, outputs);
}
