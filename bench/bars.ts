/** What the measured times have to reach. GPU bars are about an H200. */
import type { HeadFormat } from '../src/kernel_names';
import type { Row } from './results';
import { sameShape, sameTrial } from './results';
import { BERT, DENSE_FORMATS, FORMATS, K, LARGE, SHARD, SHARD_ROWS, SMALL, TINY, type Shape } from './trials';

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
    ...greedyBars(rows),
    ...binaryBars(rows),
    ...kBars(rows),
    ...peerBars(rows),
    ...optionBars(rows),
    ...scratchBars(rows),
    ...argmaxBars(rows),
    ...overheadBars(rows),
    ...homeBars(rows),
  ];
}

function floorBars(rows: Row[]): Bar[] {
  const limits = { bfloat16: [1.02, 1.15], float16: [1.02, 1.15], float32: [1.03, 1.6] };
  return DENSE_FORMATS.flatMap((format) => {
    const [few, many] = limits[format];
    const cells: [rows: number, k: number, limit: number][] = [
      [1, 1, few],
      [1, K, few],
      [8, 1, few],
      [8, K, few],
      [64, K, many],
    ];
    return cells.map(([rowCount, k, limit]) => {
      const row = find(rows, { format, rows: rowCount, k });
      return atMost(`${format}, ${count(rowCount)}, k = ${k}: time / floor`, limit, ratio(row?.us, row?.floorUs));
    });
  });
}

/** FlashSampling's greedy kernel runs with a bfloat16 head; a float16 one is as many bytes. */
function greedyBars(rows: Row[]): Bar[] {
  return (['bfloat16', 'float16'] as const).flatMap((format) =>
    [1, 8, 64].map((rowCount) => {
      const wanted = { rows: rowCount, k: 1 };
      const peer = find(rows, { ...wanted, format: 'bfloat16' })?.peers.flashsampling;
      const text = `${format}, ${count(rowCount)}, k = 1: time / FlashSampling's greedy kernel (bfloat16)`;
      return atMost(text, 1, ratio(find(rows, { ...wanted, format })?.us, peer));
    }),
  );
}

function binaryBars(rows: Row[]): Bar[] {
  const [one, eight, many] = [1, 8, 64].map((rowCount) => find(rows, { format: 'binary', rows: rowCount }));
  return [
    atMost('binary, 1 row: time / floor', 1.12, ratio(one?.us, one?.floorUs)),
    atLeast('binary, 1 row: times faster than torch bfloat16', 12, ratio(one?.peers.torchBfloat16, one?.us)),
    atMost('binary, 8 rows: time / its 1-row time', 1.4, ratio(eight?.us, one?.us)),
    atMost('binary, 64 rows: time / its 1-row time', 3, ratio(many?.us, one?.us)),
  ];
}

/** Of all row counts that were measured the worst counts. */
function kBars(rows: Row[]): Bar[] {
  const limits: [Shape, number][] = [
    [LARGE, 2],
    [SMALL, 3],
  ];
  return limits.flatMap(([shape, limit]) =>
    FORMATS.map((format) => {
      const value = worst(
        [512, 2048].flatMap((k) =>
          [1, 8, 64].map((rowCount) => {
            const wanted = { format, shape, rows: rowCount };
            return ratio(find(rows, { ...wanted, k })?.us, find(rows, wanted)?.us);
          }),
        ),
      );
      return atMost(`${format}, V = ${shape.vocab}, k to 2048, at worst: time / k = ${K}`, limit, value);
    }),
  );
}

/** A binary head against a bfloat16 head of the same shape. */
function peerBars(rows: Row[]): Bar[] {
  const toPeer = (row: Row | undefined) => ratio(row?.us, row?.peers.torch ?? row?.peers.torchBfloat16);
  const all = FORMATS.map((format) => {
    const usual = rows.filter(
      (row) => row.op === 'lm_head_topk' && row.format === format && !row.bias && !row.logSumExp,
    );
    const text = `${format}, every shape, rows and k, at worst: time / cuBLAS + topk`;
    return atMost(text, 1, usual.length === 0 ? undefined : worst(usual.map(toPeer)));
  });
  const small = FORMATS.flatMap((format) =>
    [SMALL, BERT].map((shape) => {
      const cells = [1, K].flatMap((k) => [1, 8].map((rowCount) => find(rows, { format, shape, rows: rowCount, k })));
      const text = `${format}, V = ${shape.vocab}, 1 and 8 rows, k to ${K}, at worst`;
      return [
        atMost(`${text}: time / cuBLAS + topk`, 0.5, worst(cells.map(toPeer))),
        atMost(`${text}: launches`, 1, worst(cells.map((row) => row?.launches)), 'launches'),
      ];
    }),
  );
  return [...all, ...small.flat()];
}

/** The largest; undefined where one of them was not measured, for it may be larger. */
function worst(values: (number | undefined)[]): number | undefined {
  return values.includes(undefined) ? undefined : Math.max(...(values as number[]));
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
  const mib = (bytes: number | null | undefined) => (bytes == null ? undefined : bytes / 2 ** 20);
  // A quarter of the logits of 64 rows, where that is more.
  const many = Math.max(16, (64 * LARGE.vocab * 4) / 4 / 2 ** 20);
  return FORMATS.flatMap((format) => {
    const bytes = [1, K, 512].map((k) => mib(find(rows, { format, rows: 64, k })?.scratchBytes));
    return [
      atMost(`${format}, 8 rows: scratch memory`, 4, mib(find(rows, { format, rows: 8 })?.scratchBytes), 'MiB'),
      atMost(`${format}, 64 rows, k to 512: scratch memory`, many, worst(bytes), 'MiB'),
    ];
  });
}

/** A rank's part of the vocab-parallel argmax, communication excluded. */
function argmaxBars(rows: Row[]): Bar[] {
  return SHARD_ROWS.map((rowCount) => {
    const row = rows.find((other) => other.op === 'vocab_parallel_argmax' && other.rows === rowCount);
    const text = `argmax of a shard of ${SHARD.vocab}, ${count(rowCount)}: time / the reduction in separate torch kernels`;
    return atMost(text, rowCount === 64 ? 0.25 : 0.2, ratio(row?.us, row?.peers.torch));
  });
}

/** The slowest of all formats counts; host time is that of a tiny head, beside tf.neg in the same process. */
function overheadBars(rows: Row[]): Bar[] {
  const op = rows.filter((row) => row.op === 'lm_head_topk_op');
  const hosts = op
    .filter((row) => row.measure === 'host' && sameShape(row, TINY))
    .map((row) => ratio(row.us, row.peers.tfjsNeg));
  const firsts = op.filter((row) => row.measure === 'first').map((row) => row.us / 1000);
  const atWorst = (values: (number | undefined)[]) => (values.length === 0 ? undefined : worst(values));
  return [
    atMost('tfjs op: host time of a call, at worst / tf.neg', 1.3, atWorst(hosts)),
    atMost('tfjs op: first call', 50, atWorst(firsts), 'ms'),
  ];
}

/** Values and ids with the option host: the slowest of all formats and sizes counts. */
function homeBars(rows: Row[]): Bar[] {
  const ofOp = (measure: Row['measure']) =>
    rows.filter((row) => row.op === 'lm_head_topk_op' && row.measure === measure);
  const above = ofOp('sync').flatMap((row) =>
    ofOp('stream')
      .filter((unread) => sameTrial(unread, row))
      .map((unread) => row.us - unread.us),
  );
  const worst = above.length === 0 ? undefined : Math.max(...above);
  return [atMost('tfjs op: a token brought home, above the time without reading, at worst', 40, worst, 'us')];
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
    ['bfloat16', 2.5],
    ['binary', 6],
    ['float32', 1.2],
  ];
  const faster = limits.map(([format, limit]) => {
    const row = find(rows, { format, shape: SMALL });
    const text = `${format}, V = ${SMALL.vocab}, 1 row: times faster than tf.matMul + tf.topk in float32`;
    return atLeast(text, limit, ratio(row?.peers.tfjs, row?.us));
  });
  const notSlower = FORMATS.map((format) => {
    const many = rows.filter((row) => row.op === 'lm_head_topk' && row.format === format && row.rows >= 8);
    const text = `${format}, every shape, 8 and 64 rows, at worst: time / tf.matMul + tf.topk in float32`;
    return atMost(text, 1, many.length === 0 ? undefined : worst(many.map((row) => ratio(row.us, row.peers.tfjs))));
  });
  return [...faster, ...notSlower, ...overheadBars(rows)];
}
