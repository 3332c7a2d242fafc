/** What the plots show, as Vega-Lite specifications. */
import type { TopLevelSpec } from 'vega-lite';
import type { Results, Row } from './results';
import { sameShape } from './results';
import { DENSE_FORMATS, FORMATS, K, LARGE, TINY } from './trials';

const NAMES = {
  ours: 'lmHeadTopK',
  floor: 'reading the weights',
  torch: 'cuBLAS + torch.topk',
  torchBfloat16: 'the same head in bf16: cuBLAS + torch.topk',
  flashsampling: 'FlashSampling',
  tfjs: 'tf.matMul + tf.topk',
};
type Series = keyof typeof NAMES;
const COLORS: Record<Series, string> = {
  ours: '#c2185b',
  floor: '#6b7280',
  torch: '#2563eb',
  torchBfloat16: '#2563eb',
  flashsampling: '#0f766e',
  tfjs: '#b45309',
};
const WIDTH = 250;
const HEIGHT = 220;
/** Least distance of two labels' lines. */
const LABEL_STEP = 13;
export const CONFIG = {
  background: 'white',
  padding: 12,
  font: 'system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif',
  view: { stroke: null },
  axis: {
    labelFontSize: 11,
    titleFontSize: 11,
    titleFontWeight: 'normal',
    gridColor: '#e5e7eb',
    domainColor: '#9ca3af',
  },
  title: {
    fontSize: 15,
    subtitleFontSize: 11,
    subtitleColor: '#4b5563',
    anchor: 'start',
    offset: 12,
    subtitlePadding: 5,
  },
} as const;

interface Point {
  series: Series;
  /** Number of rows, or k. */
  x: number;
  us: number;
}

/** Time by the number of rows, k = 50, on the large head; a panel a format. */
export function rowsChart(results: Results): TopLevelSpec | undefined {
  return lineChart(results, 'rows', (row) => row.k === K, {
    title: `Top ${K} of a head with V = 248,320 and H = 5,120, by number of rows`,
    axis: 'rows (hidden vectors a call)',
    note: '',
  });
}

/** Time by k, one row, on the large head; a panel a format. */
export function kChart(results: Results): TopLevelSpec | undefined {
  return lineChart(results, 'k', (row) => row.rows === 1, {
    title: 'Top k of a head with V = 248,320 and H = 5,120, one row, by k',
    axis: 'k',
    note: ' FlashSampling at k = 1 is its greedy kernel.',
  });
}

function lineChart(
  { gpu, rows }: Results,
  x: 'rows' | 'k',
  wanted: (row: Row) => boolean,
  { title, axis, note }: { title: string; axis: string; note: string },
): TopLevelSpec | undefined {
  const usual = rows.filter(
    (row) => row.op === 'lm_head_topk' && sameShape(row, LARGE) && !row.bias && !row.logSumExp && wanted(row),
  );
  const panels = FORMATS.flatMap((format) => {
    const points = usual.filter((row) => row.format === format).flatMap((row) => pointsOf(row, row[x]));
    return points.length === 0 ? [] : [panel(format, points, axis)];
  });
  if (panels.length === 0) return undefined;
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    title: {
      text: title,
      subtitle: `${gpu}. Median GPU time on logarithmic scales, each panel its own; lower is better.${note}`,
    },
    columns: 2,
    spacing: { row: 28, column: 24 },
    concat: panels,
    config: CONFIG,
  } as unknown as TopLevelSpec;
}

function pointsOf({ us, floorUs, peers }: Row, x: number): Point[] {
  const { torch, torchBfloat16, flashsampling, tfjs } = peers;
  const times: Partial<Record<Series, number | null>> = {
    ours: us,
    floor: floorUs,
    torch,
    torchBfloat16,
    flashsampling,
    tfjs,
  };
  return Object.entries(times).flatMap(([series, time]) =>
    time == null ? [] : [{ series: series as Series, x, us: time }],
  );
}

function panel(format: string, points: Point[], axisTitle: string): object {
  const times = points.map(({ us }) => us);
  const domain = [Math.min(...times) / 1.12, Math.max(...times) * 1.12];
  const height = ({ us }: Point) => HEIGHT * (1 - Math.log(us / domain[0]) / Math.log(domain[1] / domain[0]));
  const color = {
    field: 'series',
    type: 'nominal',
    scale: { domain: Object.keys(COLORS), range: Object.values(COLORS) },
    legend: null,
  };
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const xChannel = {
    field: 'x',
    type: 'ordinal',
    sort: null,
    scale: { type: 'point', padding: 0.25, domain: xs },
    axis: { title: axisTitle, labelAngle: 0, format: ',', grid: false },
  };
  const yChannel = {
    field: 'us',
    type: 'quantitative',
    scale: { type: 'log', domain, nice: false },
    axis: {
      title: 'µs',
      values: ticks(domain),
      format: ',',
      titleAngle: 0,
      titleAlign: 'left',
      titleY: -8,
      titleX: -28,
    },
  };
  const lines = (dashed: boolean) => ({
    transform: [{ filter: `datum.series ${dashed ? '==' : '!='} 'floor'` }],
    mark: {
      type: 'line',
      strokeWidth: dashed ? 1.5 : 2,
      point: dashed ? false : { size: 36 },
      strokeDash: dashed ? [5, 4] : [1, 0],
    },
    encoding: { x: xChannel, y: yChannel, color },
  });
  return {
    title: { text: format, fontSize: 12, anchor: 'start', frame: 'group', offset: 18 },
    width: WIDTH,
    height: HEIGHT,
    data: { values: points },
    layer: [
      lines(true),
      lines(false),
      {
        data: { values: labels(points, height) },
        mark: { type: 'text', align: 'left', baseline: 'middle', dx: 9, fontSize: 11 },
        encoding: {
          x: xChannel,
          y: { field: 'pixel', type: 'quantitative', scale: null, axis: null },
          text: { field: 'label' },
          color,
        },
      },
      {
        transform: [{ filter: `datum.series == 'ours' && datum.x != ${xs[xs.length - 1]}` }],
        mark: { type: 'text', dy: -10, fontSize: 11 },
        encoding: { x: xChannel, y: yChannel, text: { field: 'us', format: ',.0f' }, color },
      },
    ],
  };
}

/** A label at the right end of each series, moved apart where they would cover each other. */
function labels(points: Point[], height: (point: Point) => number): object[] {
  const right = Math.max(...points.map(({ x }) => x));
  const ends = [...new Set(points.map(({ series }) => series))].map((series) => {
    const own = points.filter((point) => point.series === series);
    return own.reduce((last, point) => (point.x > last.x ? point : last));
  });
  const placed = ends
    .map((point) => ({ ...point, pixel: height(point), label: `${NAMES[point.series]} ${thousands(point.us)}` }))
    .sort((a, b) => a.pixel - b.pixel);
  const atRight = placed.filter(({ x }) => x === right);
  spread(atRight);
  return placed;
}

/** Moves sorted labels apart: each pair that is too close gives way by half, until none is. */
function spread(sorted: { pixel: number }[]): void {
  for (let round = 0; round < 100; round++) {
    let moved = false;
    for (let i = 1; i < sorted.length; i++) {
      const missing = LABEL_STEP - (sorted[i].pixel - sorted[i - 1].pixel);
      if (missing < 0.01) continue;
      sorted[i - 1].pixel -= missing / 2;
      sorted[i].pixel += missing / 2;
      moved = true;
    }
    if (!moved) return;
  }
}

/** Round numbers within the domain: the coarsest kind of which there are at least four. */
function ticks([low, high]: number[]): number[] {
  const kinds = [
    [1, 2, 5],
    [1, 1.5, 2, 3, 5, 7],
    [1, 1.2, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9],
    Array.from({ length: 18 }, (_, i) => 1 + i / 2),
  ];
  const within = (steps: number[]) =>
    [1, 10, 100, 1000, 10000, 100000]
      .flatMap((power) => steps.map((step) => step * power))
      .filter((value) => value >= low && value <= high);
  return kinds.map(within).find((values) => values.length >= 4) ?? within(kinds[kinds.length - 1]);
}

/** Time on a CPU, a panel a shape and number of rows, a bar a format. */
export function cpuChart({ gpu, rows }: Results): TopLevelSpec | undefined {
  const measured = rows.filter((row) => row.op === 'lm_head_topk' && row.rows <= 8 && !sameShape(row, TINY));
  const cases = measured.filter(
    (row, i) => measured.findIndex((other) => sameShape(row, other) && row.rows === other.rows) === i,
  );
  if (cases.length === 0) return undefined;
  cases.sort((a, b) => a.rows - b.rows);
  const panels = cases.map((wanted) => {
    const same = measured.filter((row) => sameShape(row, wanted) && row.rows === wanted.rows);
    const stock = same.find((row) => row.format === 'float32')?.peers.tfjs;
    const values = [
      ...(stock === undefined ? [] : [{ name: NAMES.tfjs, us: stock, stock: true }]),
      ...['float32', ...DENSE_FORMATS.filter((format) => format !== 'float32'), 'binary'].flatMap((format) =>
        same.filter((row) => row.format === format).map(({ us }) => ({ name: format, us, stock: false })),
      ),
    ].map((bar) => ({ ...bar, ms: bar.us / 1000, label: `${(bar.us / 1000).toFixed(bar.us < 10000 ? 2 : 1)} ms` }));
    const y = { field: 'name', type: 'nominal', sort: null, axis: { title: null, ticks: false, domain: false } };
    const most = Math.max(...values.map(({ ms }) => ms));
    const x = { field: 'ms', type: 'quantitative', scale: { domain: [0, most * 1.3], nice: false }, axis: null };
    const count = `${wanted.rows} ${wanted.rows === 1 ? 'row' : 'rows'}`;
    return {
      title: { text: `V = ${thousands(wanted.vocab)}, H = ${thousands(wanted.hidden)}, ${count}`, fontSize: 12 },
      width: 190,
      height: { step: 22 },
      data: { values },
      layer: [
        {
          mark: { type: 'bar', height: 15 },
          encoding: {
            x,
            y,
            color: {
              field: 'stock',
              type: 'nominal',
              scale: { domain: [true, false], range: [COLORS.tfjs, COLORS.ours] },
              legend: null,
            },
          },
        },
        {
          mark: { type: 'text', align: 'left', dx: 4, fontSize: 11, color: '#111827' },
          encoding: { x, y, text: { field: 'label' } },
        },
      ],
    };
  });
  const columns = cases.filter(({ rows: count }) => count === cases[0].rows).length;
  return {
    $schema: 'https://vega.github.io/schema/vega-lite/v6.json',
    title: {
      text: `Top ${K} on the CPU: lmHeadTopK by format of its head, and float32 tf.matMul + tf.topk`,
      subtitle: `${gpu}. Median time of a call and of reading its result; shorter is better.`,
    },
    columns,
    spacing: 28,
    concat: panels,
    config: CONFIG,
  } as unknown as TopLevelSpec;
}

export function thousands(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
