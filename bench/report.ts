/** What a run prints at its end. */
import type { Verdict } from './bars';
import type { BarVerdict, CellVerdict } from './matrix_bars';
import type { Peer, Results, Row } from './results';

const PEERS: [Peer, string][] = [
  ['torch', 'torch'],
  ['torchBfloat16', 'torch bf16'],
  ['flashsampling', 'FlashSampl.'],
  ['tfjs', 'tfjs'],
  ['tfjsTf32', 'tfjs TF32'],
  ['tfjsNeg', 'tf.neg'],
  ['oneGpu', 'one GPU'],
];

/** The rows as a table. A column '/ torch' is this package's time divided by torch's: below 1 is faster. */
export function table({ rows }: Results): string {
  const present = PEERS.filter(([peer]) => rows.some((row) => row.peers[peer] !== undefined));
  const hasFloor = rows.some((row) => row.floorUs !== null);
  const header = ['op', 'format', 'rows', 'V', 'H', 'k', 'with', 'us'];
  if (hasFloor) header.push('floor us', '/ floor', 'scratch MiB');
  const lines = rows.map((row) => [
    row.op,
    row.format,
    ...[row.rows, row.vocab, row.hidden, row.k].map(String),
    extras(row),
    row.us.toFixed(1),
    ...(hasFloor ? [number(row.floorUs, 1), quotient(row.us, row.floorUs), number(row.scratchBytes, 2, 2 ** 20)] : []),
    ...present.map(([peer]) => quotient(row.us, row.peers[peer])),
  ]);
  return align([[...header, ...present.map(([, name]) => `/ ${name}`)], ...lines]);
}

/** The bars, with those to look at last. */
export function verdicts(list: Verdict[]): string {
  const order = ['met', 'not measured', 'missed'];
  const sorted = [...list].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict));
  const lines = sorted.map(({ text, kind, limit, unit, value, verdict }) => [
    verdict === 'missed' ? 'MISSED' : verdict,
    value === undefined ? '' : `${value.toFixed(3)} ${unit}`,
    `${kind} ${limit} ${unit}`,
    text,
  ]);
  const counted = (verdict: Verdict['verdict']) => list.filter((bar) => bar.verdict === verdict).length;
  const sum = `${counted('met')} bars met, ${counted('missed')} missed, ${counted('not measured')} not measured.`;
  return `${align(lines, 3)}\n${sum}`;
}

/** Each bar of the matrix: how many cells of each format meet it, and the worst cells of all formats. */
export function matrixReport(bars: BarVerdict[], worst = 8): string {
  const texts = [...new Set(bars.map(({ bar }) => bar.text))];
  const parts = texts.map((text) => {
    const same = bars.filter(({ bar }) => bar.text === text);
    const counts = same.map(({ format, met, missed, notMeasured, cells }) => [
      format,
      `${met} met`,
      `${missed} missed`,
      `${notMeasured} not measured`,
      cells.length === 0 ? '' : `worst ${(cells[0].ratio ?? 0).toFixed(2)}`,
    ]);
    const excess = ({ ratio = 0, limit }: CellVerdict) => ratio / limit;
    const cells = same.flatMap((bar) => bar.cells.slice(0, worst)).sort((a, b) => excess(b) - excess(a));
    const header = ['verdict', 'format', 'V', 'H', 'rows', 'k', 'scores', 'ratio', 'limit', 'of', 'against'];
    const lines = cells
      .slice(0, worst)
      .map(({ cell, verdict, ratio = 0, limit, value = 0, against = 0 }) => [
        verdict === 'missed' ? 'MISSED' : verdict,
        cell.format,
        ...[cell.vocab, cell.hidden, cell.rows, cell.k].map(String),
        cell.data,
        ratio.toFixed(3),
        String(limit),
        value.toFixed(1),
        against.toFixed(1),
      ]);
    return `${text}\n${align(counts)}\n${lines.length === 0 ? '' : align([header, ...lines]) + '\n'}`;
  });
  const sum = (count: (bar: BarVerdict) => number) => bars.reduce((total, bar) => total + count(bar), 0);
  const all = `${sum(({ met }) => met)} met, ${sum(({ missed }) => missed)} missed`;
  return `${parts.join('\n')}\nAll bars of all cells: ${all}, ${sum(({ notMeasured }) => notMeasured)} not measured.`;
}

function extras(row: Row): string {
  return [row.bias && 'bias', row.logSumExp && 'logSumExp', row.measure].filter(Boolean).join('+');
}

function number(value: number | null, digits: number, divisor = 1): string {
  return value === null ? '' : (value / divisor).toFixed(digits);
}

function quotient(a: number, b: number | null | undefined): string {
  return b == null ? '' : (a / b).toFixed(2);
}

/** Columns are as wide as their widest cell; text goes left and numbers go right, but the column `lastText` stays left. */
function align(lines: string[][], lastText = -1): string {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const pad = (text: string, column: number) =>
    column < 2 && lastText < 0 ? text.padEnd(widths[column]) : text.padStart(widths[column]);
  return lines
    .map((line) =>
      line
        .map((text, column) => (column === lastText ? text : pad(text, column)))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
