import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** float32 [rows, columns]. */
export interface Matrix {
  rows: number;
  columns: number;
  values: Float32Array;
}

interface Entry {
  dtype: string;
  shape: number[];
  /** First byte, and the one behind the last, counted from the end of the header. */
  data_offsets: [number, number];
}

const LENGTH_BYTES = 8;

/**
 * Reads one float32 matrix of a .safetensors file, and nothing else of it. Such a file is the length of its header (8 bytes,
 * little-endian), the header (JSON: dtype, shape and place of each tensor by name), and the tensors' bytes.
 * @throws Error that names the file if it is no such file, or holds no such matrix
 */
export function readMatrix(path: string, name: string): Matrix {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    const headerBytes = size < LENGTH_BYTES ? NaN : Number(read(file, 0, LENGTH_BYTES).readBigUInt64LE());
    if (!(headerBytes <= size - LENGTH_BYTES)) throw new Error(`${path} is no .safetensors file.`);
    const entry = parseHeader(path, read(file, LENGTH_BYTES, headerBytes).toString('utf8'))[name];
    if (entry === undefined) throw new Error(`${path} holds no tensor '${name}'.`);
    const { dtype, shape, data_offsets: offsets } = entry;
    if (dtype !== 'F32' || shape.length !== 2) {
      throw new Error(`Tensor '${name}' of ${path} must be a float32 matrix, but is ${dtype} [${shape.join(',')}].`);
    }
    const [rows, columns] = shape;
    const begin = LENGTH_BYTES + headerBytes + offsets[0];
    const bytes = 4 * rows * columns;
    if (offsets[1] - offsets[0] !== bytes || begin + bytes > size) {
      throw new Error(`Tensor '${name}' of ${path} lies outside of the file: is its download complete?`);
    }
    // a copy, for a Buffer need not begin at a multiple of 4 bytes
    const values = new Float32Array(Uint8Array.from(read(file, begin, bytes)).buffer);
    return { rows, columns, values };
  } finally {
    closeSync(file);
  }
}

function parseHeader(path: string, header: string): Partial<Record<string, Entry>> {
  try {
    return JSON.parse(header) as Record<string, Entry>;
  } catch {
    throw new Error(`${path} is no .safetensors file.`);
  }
}

function read(file: number, position: number, length: number): Buffer {
  const buffer = Buffer.alloc(length);
  let done = 0;
  while (done < length) {
    const count = readSync(file, buffer, done, length - done, position + done);
    if (count === 0) throw new Error('The file has become shorter while it was read.');
    done += count;
  }
  return buffer;
}
