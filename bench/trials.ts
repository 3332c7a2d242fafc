/** What is measured: shapes, formats, row counts and k. Nothing here runs anything. */
import type { HeadFormat } from '../src/kernel_names';

/** One use of the head: `rows` hidden vectors against [vocab, hidden] weights, the best `k` kept. */
export interface Trial {
  format: HeadFormat;
  rows: number;
  vocab: number;
  hidden: number;
  k: number;
}

export interface Shape {
  vocab: number;
  hidden: number;
}

/** The head that the bars are about: 2.5 GB in 16 bits. */
export const LARGE: Shape = { vocab: 248320, hidden: 5120 };
/** GPT-2's head: so small that launching kernels shows. */
export const SMALL: Shape = { vocab: 50257, hidden: 768 };
/** That of all-MiniLM-L6-v2 and of BERT. */
export const BERT: Shape = { vocab: 30522, hidden: 384 };
/** So little work that a call costs its overhead and nothing else. */
export const TINY: Shape = { vocab: 64, hidden: 128 };
/** Llama 3's 8B. */
const LLAMA: Shape = { vocab: 128256, hidden: 4096 };
/** Qwen2's smallest. */
const QWEN: Shape = { vocab: 151936, hidden: 896 };
/** Llama 2's 7B. */
const WIDE: Shape = { vocab: 32000, hidden: 4096 };

export const DENSE_FORMATS = ['bfloat16', 'float16', 'float32'] as const;
export const FORMATS = [...DENSE_FORMATS, 'binary'] as const;

export const K = 50;
const KS = [1, K, 512, 2048];
const ROWS = [1, 8, 64];
const MORE_ROWS = [1, 2, 4, 8, 16, 32, 64];

/** What the peers of the CUDA launchers measure; cuda_test has the same list. Other k than 50 are for 1, 8 and 64 rows. */
export function kernelTrials(quick: boolean): Trial[] {
  if (quick) return trials([LARGE], ['bfloat16', 'float32', 'binary'], ROWS, [K]);
  const shapes = [LARGE, LLAMA, SMALL, BERT];
  const otherKs = KS.filter((k) => k !== K);
  return [...trials(shapes, FORMATS, MORE_ROWS, [K]), ...trials(shapes, FORMATS, ROWS, otherKs)];
}

/** FlashSampling's kernels: greedy (k = 1), and a top k that cannot be larger than one of its tiles (128). */
export function flashSamplingTrials(): Trial[] {
  // k = 50 first: it is what the bars and the plots are about, and tuning may use up the time.
  return [...trials([LARGE], ['bfloat16'], ROWS, [K]), ...trials([LARGE], ['bfloat16'], ROWS, [1])];
}

/** The op as a tfjs user calls it, on the GPU. */
export function gpuOpTrials(quick: boolean): Trial[] {
  const tiny = trials([TINY], FORMATS, [1], [K]);
  if (quick) return [...tiny, ...trials([LARGE], ['bfloat16'], [1], [K])];
  return [...tiny, ...trials([SMALL], FORMATS, [1], [K]), ...trials([LARGE], FORMATS, ROWS, [K])];
}

/** The op as a tfjs user calls it, on the CPU. */
export function cpuOpTrials(quick: boolean): Trial[] {
  const tiny = trials([TINY], FORMATS, [1], [K]);
  if (quick) return [...tiny, ...trials([SMALL], FORMATS, [1], [K])];
  return [
    ...tiny,
    ...trials([SMALL], FORMATS, ROWS, [K]),
    ...trials([QWEN], FORMATS, ROWS, [K]),
    ...trials([WIDE], FORMATS, ROWS, [K]),
  ];
}

function trials(
  shapes: readonly Shape[],
  formats: readonly HeadFormat[],
  rowCounts: readonly number[],
  ks: readonly number[],
): Trial[] {
  return shapes.flatMap((shape) =>
    formats.flatMap((format) => rowCounts.flatMap((rows) => ks.map((k) => ({ format, rows, ...shape, k })))),
  );
}

/** Orders in which scores come: random data, and scores that are injected so (test/cuda/score_orders.h). */
export const DATA = ['random', 'ascending', 'descending', 'equal', 'clustered', 'two values', 'mostly -inf'] as const;
export type Data = (typeof DATA)[number];

export interface MatrixTrial extends Trial {
  data: Data;
}

export const MATRIX_SHAPES: Shape[] = [
  BERT,
  { vocab: 32000, hidden: 2048 },
  WIDE,
  SMALL,
  { vocab: 128256, hidden: 2048 },
  { vocab: 151936, hidden: 1024 },
  { vocab: 201088, hidden: 2880 },
  LARGE,
  { vocab: 262144, hidden: 640 },
];
export const MATRIX_ROWS = [1, 2, 4, 8, 16, 32, 64, 128, 256];
export const MATRIX_KS = KS;

/** Every cell of the matrix; cuda_test has the same list. Row counts that are not in ROWS have random data alone. */
export function matrixTrials(formats: readonly HeadFormat[]): MatrixTrial[] {
  const all = trials(MATRIX_SHAPES, formats, MATRIX_ROWS, MATRIX_KS);
  return DATA.flatMap((data) =>
    all.filter(({ rows }) => data === 'random' || ROWS.includes(rows)).map((trial) => ({ ...trial, data })),
  );
}

/** A rank's slice of a vocabulary of 131,072, cut for four. */
export const SHARD: Shape = { vocab: 32768, hidden: 0 };
export const SHARD_RANKS = 4;
export const SHARD_ROWS = [1, 2, 4, 8, 64];

/** What peers of the argmax's CUDA launchers measure, on logits that are there already; cuda_test has the same list. */
export interface ArgmaxTrial extends Trial {
  op: 'vocab_parallel_argmax' | 'argmax';
  /** How many have a slice like this. */
  ranks: number;
}

export function argmaxTrials(): ArgmaxTrial[] {
  return trials([SHARD], ['bfloat16'], SHARD_ROWS, [1]).flatMap((trial) => [
    { op: 'vocab_parallel_argmax', ranks: SHARD_RANKS, ...trial },
    { op: 'argmax', ranks: 1, ...trial },
  ]);
}

export type StepOp = 'vocab_parallel_step' | 'decode_step';

/** What several GPUs do together for one row: the pick alone, and the head with it. */
export const STEP_TRIALS: Record<StepOp, Trial> = {
  vocab_parallel_step: { format: 'float32', rows: 1, vocab: 131072, hidden: 0, k: 1 },
  decode_step: { format: 'bfloat16', rows: 1, ...LARGE, k: 1 },
};
