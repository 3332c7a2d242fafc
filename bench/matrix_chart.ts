/** The matrix as a heat map, as a Vega-Lite specification. */
import type { TopLevelSpec } from 'vega-lite';
import { CONFIG, thousands } from './charts';
import { CELL_BARS, judgeMatrix } from './matrix_bars';
import type { Results } from './results';
import { MATRIX_KS, MATRIX_ROWS, MATRIX_SHAPES, matrixTrials } from './trials';

const CELL_WIDTH = 30;
const CELL_HEIGHT = 19;
/** Between the cells of one number of rows and the next, in cells. */
const GAP = 0.35;

interface Square {
  shape: string;
  /** Left and right side, in cells. */
  x: number;
  x2: number;
  ratio: number | null;
  label: string;
}

/**
 * Time divided by that of cuBLAS + topk: a panel a format, a line a shape, a column for each number of rows and k. Each
 * square is the worst of its orders of scores; where one of them was not measured it has no number.
 */
export function matrixChart({ gpu, rows }: Results): TopLevelSpec | undefined {
  const bars = judgeMatrix(rows).filter(({ bar }) => bar === CELL_BARS[0]);
  const panels = bars.flatMap(({ format, cells }) => {
    if (cells.length === 0) return [];
    const ratios = new Map<string, number[]>();
    for (const { cell, ratio } of cells) {
      const key = keyOf(cell);
      ratios.set(key, [...(ratios.get(key) ?? []), ratio as number]);
    }
    const wanted = new Map<string, number>();
    for (const cell of matrixTrials([format])) wanted.set(keyOf(cell), (wanted.get(keyOf(cell)) ?? 0) + 1);
    const squares = MATRIX_SHAPES.flatMap((shape) =>
      MATRIX_ROWS.flatMap((count, i) =>
        MATRIX_KS.map((k, j): Square => {
          const key = keyOf({ ...shape, rows: count, k });
          const found = ratios.get(key) ?? [];
          const ratio = found.length === wanted.get(key) ? Math.max(...found) : null;
          const x = i * (MATRIX_KS.length + GAP) + j;
          return { shape: nameOf(shape), x, x2: x + 1, ratio, label: ratio === null ? '' : short(ratio) };
        }),
      ),
    );
    return [panel(format, squares)];
  });
  if (panels.length === 0) return undefined;
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    title: {
      text: 'Time of lmHeadTopK divided by that of cuBLAS + torch.topk, by format, shape, rows and k',
      subtitle: [
        `${gpu}. Below 1 is faster. Each square is the worst of all orders of scores: random at every number of rows; at 1, 8`,
        'and 64 rows also ascending, descending, equal, clustered, two values, and all but 20 at -inf. A binary head stands',
        'beside cuBLAS with the same head in bfloat16. A square without a number was not measured in full.',
      ],
    },
    spacing: 26,
    vconcat: panels,
    config: CONFIG,
  } as unknown as TopLevelSpec;
}

function panel(format: string, squares: Square[]): object {
  const columns = MATRIX_ROWS.length * (MATRIX_KS.length + GAP) - GAP;
  const y = {
    field: 'shape',
    type: 'nominal',
    sort: MATRIX_SHAPES.map(nameOf),
    scale: { paddingInner: 0.06, paddingOuter: 0 },
    axis: { title: null, ticks: false, domain: false, labelPadding: 6 },
  };
  const x = {
    field: 'x',
    type: 'quantitative',
    scale: { domain: [0, columns], nice: false, zero: false },
    axis: null,
  };
  const center = { ...x, field: 'center' };
  // Blue is faster than cuBLAS + topk, red slower; beyond four times the color stays the same.
  const color = {
    condition: {
      test: 'datum.ratio !== null',
      field: 'shown',
      type: 'quantitative',
      scale: { domain: [-2, 0, 2], range: ['#2166ac', '#f7f7f7', '#b2182b'], interpolate: 'lab' },
      legend: null,
    },
    value: '#e5e7eb',
  };
  const shown = (ratio: number | null) => (ratio === null ? 0 : Math.max(-2, Math.min(2, Math.log2(ratio))));
  const heads = MATRIX_ROWS.flatMap((count, i) => {
    const left = i * (MATRIX_KS.length + GAP);
    return [
      { center: left + MATRIX_KS.length / 2, line: -22, text: `${count} ${count === 1 ? 'row' : 'rows'}`, bold: true },
      ...MATRIX_KS.map((k, j) => ({ center: left + j + 0.5, line: -8, text: String(k), bold: false })),
    ];
  });
  const headText = (bold: boolean) => ({
    data: { values: heads.filter((head) => head.bold === bold) },
    mark: {
      type: 'text',
      fontSize: bold ? 11 : 9,
      fontWeight: bold ? 'bold' : 'normal',
      color: '#374151',
      aria: false,
    },
    encoding: {
      x: center,
      y: { field: 'line', type: 'quantitative', scale: null, axis: null },
      text: { field: 'text' },
    },
  });
  return {
    title: { text: `${format}; k is 1, 50, 512, 2,048`, fontSize: 12, anchor: 'start', frame: 'group', offset: 6 },
    width: Math.round(columns * CELL_WIDTH),
    height: MATRIX_SHAPES.length * CELL_HEIGHT,
    data: { values: squares.map((square) => ({ ...square, center: square.x + 0.5, shown: shown(square.ratio) })) },
    layer: [
      { mark: { type: 'rect', aria: false }, encoding: { x, x2: { field: 'x2' }, y, color } },
      {
        mark: { type: 'text', fontSize: 9.5, aria: false },
        encoding: {
          x: center,
          y,
          text: { field: 'label' },
          color: { condition: { test: 'abs(datum.shown) > 1.2', value: 'white' }, value: '#111827' },
        },
      },
      headText(true),
      headText(false),
    ],
  };
}

function keyOf({ vocab, hidden, rows, k }: { vocab: number; hidden: number; rows: number; k: number }): string {
  return [vocab, hidden, rows, k].join(' ');
}

function nameOf({ vocab, hidden }: { vocab: number; hidden: number }): string {
  return `V ${thousands(vocab)}, H ${thousands(hidden)}`;
}

/** At most four characters. */
function short(ratio: number): string {
  return ratio < 9.995 ? ratio.toFixed(2) : ratio < 99.95 ? ratio.toFixed(1) : ratio.toFixed(0);
}
