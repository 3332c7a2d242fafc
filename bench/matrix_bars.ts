/** What every cell of the matrix has to reach, and the worst of them. */
import type { HeadFormat } from '../src/kernel_names';
import { cellKey } from './matrix';
import type { Row } from './results';
import { FORMATS, K, matrixTrials, type MatrixTrial } from './trials';

export interface CellBar {
  text: string;
  applies: (cell: MatrixTrial) => boolean;
  limit: (cell: MatrixTrial) => number;
  /** What is compared with the limit, in µs or bytes: the quotient of the two, or undefined where one was not measured. */
  measured: (row: Row, cellOf: CellOf) => { value: number; against: number } | undefined;
}

/** Another cell of the same format and shape. */
type CellOf = (changed: Partial<MatrixTrial>) => Row | undefined;

export interface CellVerdict {
  cell: MatrixTrial;
  verdict: 'met' | 'missed' | 'not measured';
  limit: number;
  value?: number;
  against?: number;
  ratio?: number;
}

export interface BarVerdict {
  bar: CellBar;
  format: HeadFormat;
  met: number;
  missed: number;
  notMeasured: number;
  /** Measured cells, the worst first. */
  cells: CellVerdict[];
}

const MIB = 2 ** 20;

export const CELL_BARS: CellBar[] = [
  {
    text: 'time / cuBLAS + topk (a binary head: with the bfloat16 head)',
    applies: () => true,
    limit: () => 1,
    measured: ({ us, peers }) => quotient(us, peers.torch ?? peers.torchBfloat16),
  },
  {
    text: 'time / time with random scores',
    applies: ({ data }) => data !== 'random',
    limit: () => 2,
    measured: ({ us }, cellOf) => quotient(us, cellOf({ data: 'random' })?.us),
  },
  {
    text: `time / time at k = ${K}`,
    applies: ({ k }) => k !== K,
    limit: ({ vocab }) => (vocab >= 100_000 ? 2 : 3),
    measured: ({ us }, cellOf) => quotient(us, cellOf({ k: K })?.us),
  },
  {
    text: `scratch memory / 4 MiB, 8 rows, k = ${K}`,
    applies: ({ rows, k, data }) => rows === 8 && k === K && data === 'random',
    limit: () => 1,
    measured: ({ scratchBytes }) => quotient(scratchBytes ?? undefined, 4 * MIB),
  },
  {
    text: 'scratch memory / (16 MiB or a quarter of the logits), 64 rows, k to 512',
    applies: ({ rows, k, data }) => rows === 64 && k <= 512 && data === 'random',
    limit: () => 1,
    measured: ({ scratchBytes, rows, vocab }) =>
      quotient(scratchBytes ?? undefined, Math.max(16 * MIB, (4 * rows * vocab) / 4)),
  },
];

function quotient(value: number | undefined, against: number | undefined) {
  return value === undefined || against === undefined ? undefined : { value, against };
}

/** Every bar of every format, over all cells of the matrix: a cell without a row is not measured, and so not met. */
export function judgeMatrix(rows: Row[]): BarVerdict[] {
  const byFormat = new Map(
    FORMATS.map((format) => [
      format,
      new Map(rows.filter((row) => row.format === format && row.data !== undefined).map((row) => [cellKey(row), row])),
    ]),
  );
  return CELL_BARS.flatMap((bar) =>
    FORMATS.map((format) => {
      const measured = byFormat.get(format) as Map<string, Row>;
      const cells = matrixTrials([format])
        .filter(bar.applies)
        .map((cell) => judgeCell(bar, cell, measured));
      const count = (verdict: CellVerdict['verdict']) => cells.filter((cell) => cell.verdict === verdict).length;
      return {
        bar,
        format,
        met: count('met'),
        missed: count('missed'),
        notMeasured: count('not measured'),
        cells: cells.filter(({ verdict }) => verdict !== 'not measured').sort((a, b) => excess(b) - excess(a)),
      };
    }),
  );
}

function judgeCell(bar: CellBar, cell: MatrixTrial, measured: Map<string, Row>): CellVerdict {
  const cellOf: CellOf = (changed) => measured.get(cellKey({ ...cell, ...changed }));
  const row = cellOf({});
  const found = row && bar.measured(row, cellOf);
  const limit = bar.limit(cell);
  if (found === undefined) return { cell, limit, verdict: 'not measured' };
  const ratio = found.value / found.against;
  return { cell, limit, ...found, ratio, verdict: ratio <= limit ? 'met' : 'missed' };
}

function excess({ ratio = 0, limit }: CellVerdict): number {
  return ratio / limit;
}
