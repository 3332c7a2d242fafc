/** What a run prints at its end. */
import type { Verdict } from './bars';
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
