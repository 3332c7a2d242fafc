/** What the measured times have to reach. GPU bars are about an H200. */
import type { HeadFormat } from '../src/kernel_names';
import type { Row } from './results';
import { sameShape } from './results';
import { DENSE_FORMATS, FORMATS, K, LARGE, SHARD, SHARD_ROWS, SMALL, type Shape } from './trials';

export interface Bar {
  text: string;
  /** 'at most' and 'at least' a limit. */
  kind: '<=' | '>=';
  limit: number;
  unit: string;
  /** The number to compare, or undefined where something it needs was not measured. */
  value: number | undefined;
}

export type Verdict = Bar & { verdict: 'met' | 'missed' | 'not measured' };

/** Every bar with its verdict. Numbers are compared as measured, without rounding. */
export function judge(rows: Row[], device: 'gpu' | 'gpus' | 'cpu'): Verdict[] {
  return { gpu: gpuBars, gpus: gpusBars, cpu: cpuBars }[device](rows).map((bar) => {
    if (bar.value === undefined) return { ...bar, verdict: 'not measured' };
    const met = bar.kind === '<=' ? bar.value <= bar.limit : bar.value >= bar.limit;
    return { ...bar, verdict: met ? 'met' : 'missed' };
  });
}

/** Sizes of a kernel's row; what is left out is the usual. */
interface Wanted {
  format: HeadFormat;
  shape?: Shape;
  rows?: number;
  k?: number;
  bias?: boolean;
  logSumExp?: boolean;
}

function find(rows: Row[], wanted: Wanted): Row | undefined {
  const { format, shape = LARGE, rows: count = 1, k = K, bias = false, logSumExp = false } = wanted;
  return rows.find(
    (row) =>
      row.op === 'lm_head_topk' &&
      row.format === format &&
      sameShape(row, shape) &&
      row.rows === count &&
      row.k === k &&
      row.bias === bias &&
      row.logSumExp === logSumExp,
  );
}

function ratio(a: number | null | undefined, b: number | null | undefined): number | undefined {
  return a == null || b == null ? undefined : a / b;
}

function atMost(text: string, limit: number, value: number | undefined, unit = 'x'): Bar {
  return { text, kind: '<=', limit, unit, value };
}

function atLeast(text: string, limit: number, value: number | undefined): Bar {
  return { text, kind: '>=', limit, unit: 'x', value };
}

function count(rows: number): string {
  return `${rows} ${rows === 1 ? 'row' : 'rows'}`;
}

function gpuBars(rows: Row[]): Bar[] {
  return [
    ...floorBars(rows),
    ...binaryBars(rows),
    ...kBars(rows),
    ...peerBars(rows),
    ...optionBars(rows),
    ...scratchBars(rows),
    ...argmaxBars(rows),
    ...overheadBars(rows),
  ];
}

function floorBars(rows: Row[]): Bar[] {
  const limits = { bfloat16: [1.08, 1.08, 1.25], float16: [1.08, 1.08, 1.25], float32: [1.08, 1.08, 2] };
  return DENSE_FORMATS.flatMap((format) =>
    [1, 8, 64].map((rowCount, i) => {
      const row = find(rows, { format, rows: rowCount });
      return atMost(`${format}, ${count(rowCount)}: time / floor`, limits[format][i], ratio(row?.us, row?.floorUs));
    }),
  );
}

function binaryBars(rows: Row[]): Bar[] {
  const [one, eight, many] = [1, 8, 64].map((rowCount) => find(rows, { format: 'binary', rows: rowCount }));
  return [
    atMost('binary, 1 row: time / plain read', 1.1, ratio(one?.us, one?.floorUs)),
    atLeast('binary, 1 row: times faster than torch bfloat16', 12, ratio(one?.peers.torchBfloat16, one?.us)),
    atMost('binary, 8 rows: time / its 1-row time', 1.4, ratio(eight?.us, one?.us)),
    atMost('binary, 64 rows: time / its 1-row time', 3, ratio(many?.us, one?.us)),
  ];
}

function kBars(rows: Row[]): Bar[] {
  const limits: [k: number, limit: number][] = [
    [1, 1],
    [512, 1.25],
    [2048, 2],
  ];
  return FORMATS.flatMap((format) =>
    [1, 8].flatMap((rowCount) =>
      limits.map(([k, limit]) => {
        const wanted = { format, rows: rowCount };
        const value = ratio(find(rows, { ...wanted, k })?.us, find(rows, wanted)?.us);
        return atMost(`${format}, ${count(rowCount)}, k = ${k}: time / k = ${K}`, limit, value);
      }),
    ),
  );
}

/** A binary head against a bfloat16 head of the same shape. */
function peerBars(rows: Row[]): Bar[] {
  return FORMATS.flatMap((format) =>
    [K, 512, 2048].map((k) => {
      const row = find(rows, { format, shape: SMALL, k });
      const text = `${format}, V = ${SMALL.vocab}, 1 row, k = ${k}: time / cuBLAS + topk`;
      return atMost(text, 1, ratio(row?.us, row?.peers.torch ?? row?.peers.torchBfloat16));
    }),
  );
}

/** bias and logSumExp on the large head, wherever they were measured. */
function optionBars(rows: Row[]): Bar[] {
  const withOption = rows.filter(
    (row) => row.op === 'lm_head_topk' && sameShape(row, LARGE) && (row.bias || row.logSumExp),
  );
  const bars = withOption.map((row) => {
    const { format, rows: rowCount, k } = row;
    const names = [row.bias && 'bias', row.logSumExp && 'logSumExp'].filter(Boolean).join(' and ');
    const text = `${format}, ${count(rowCount)}, k = ${k}: time with ${names} / without`;
    return atMost(text, 1.03, ratio(row.us, find(rows, { format, rows: rowCount, k })?.us));
  });
  return bars.length > 0 ? bars : [atMost('time with bias or logSumExp / without', 1.03, undefined)];
}

function scratchBars(rows: Row[]): Bar[] {
  return FORMATS.map((format) => {
    const bytes = find(rows, { format, rows: 8 })?.scratchBytes;
    return atMost(`${format}, 8 rows: scratch memory`, 4, bytes == null ? undefined : bytes / 2 ** 20, 'MiB');
  });
}

/** A rank's part of the vocab-parallel argmax, communication excluded. */
function argmaxBars(rows: Row[]): Bar[] {
  return SHARD_ROWS.map((rowCount) => {
    const row = rows.find((other) => other.op === 'vocab_parallel_argmax' && other.rows === rowCount);
    const text = `argmax of a shard of ${SHARD.vocab}, ${count(rowCount)}: time / the reduction in separate torch kernels`;
    return atMost(text, rowCount === 64 ? 0.35 : 0.22, ratio(row?.us, row?.peers.torch));
  });
}

/** The slowest of all formats and sizes counts. */
function overheadBars(rows: Row[]): Bar[] {
  const worst = (measure: Row['measure']) => {
    const times = rows.filter((row) => row.op === 'lm_head_topk_op' && row.measure === measure).map((row) => row.us);
    return times.length === 0 ? undefined : Math.max(...times);
  };
  const first = worst('first');
  return [
    atMost('tfjs op: host time of a call, at worst', 25, worst('host'), 'us'),
    atMost('tfjs op: first call', 50, first === undefined ? undefined : first / 1000, 'ms'),
  ];
}

/** Set for two GPUs. */
function gpusBars(rows: Row[]): Bar[] {
  const step = (measure: Row['measure']) =>
    rows.find((row) => row.op === 'vocab_parallel_step' && row.measure === measure)?.us;
  return [
    atMost('vocabParallelArgmax with a group, 1 row, without reading', 60, step('stream'), 'us'),
    atMost('vocabParallelArgmax with a group, 1 row, with dataSync', 110, step('dataSync'), 'us'),
  ];
}

function cpuBars(rows: Row[]): Bar[] {
  const limits: [HeadFormat, number][] = [
    ['bfloat16', 1.5],
    ['binary', 4],
    ['float32', 1],
  ];
  const faster = limits.map(([format, limit]) => {
    const row = find(rows, { format, shape: SMALL });
    const text = `${format}, V = ${SMALL.vocab}, 1 row: times faster than tf.matMul + tf.topk in float32`;
    return atLeast(text, limit, ratio(row?.peers.tfjs, row?.us));
  });
  return [...faster, ...overheadBars(rows)];
}
