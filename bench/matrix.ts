/** The matrix: many shapes, row counts, k and orders of scores, every format, beside cuBLAS + cast + topk of the same run. */
import type { HeadFormat } from '../src/kernel_names';
import { measureKernels, type GpuPrograms, type Measured, type PeerTime } from './gpu';
import type { Results, Row } from './results';
import { peerStart, Stages } from './stages';
import { matrixTrials, type Data, type MatrixTrial, type Trial } from './trials';

export interface MatrixRun {
  formats: readonly HeadFormat[];
  /** Longest time for all of it. */
  seconds: number;
  programs: Pick<GpuPrograms, 'cudaTest' | 'python'>;
  log: (line: string) => void;
  /** Called after each format with all rows so far, so that a run that is cut leaves what it has. */
  save?: (rows: Row[]) => void;
}

/** Format by format, kernels and then their peer: where the time ends, whole formats are there with their peers. */
export async function measureMatrix({ formats, seconds, programs, log, save }: MatrixRun): Promise<Measured> {
  const stages = new Stages(seconds, log);
  const rows: Row[] = [];
  const times = new Map<HeadFormat, PeerTime[]>();
  for (const format of formats) {
    const args = ['--matrix', '--json', '--format', format];
    const kernels = await measureKernels(stages, programs.cudaTest, {
      name: `cuda_test, ${format}`,
      most: Infinity,
      args,
    });
    if (kernels.length === 0) continue;
    // PyTorch has no binary head: it reads its bytes, and multiplies by the bfloat16 one.
    for (const asked of new Set([peerFormat(format), format])) {
      if (times.has(asked)) continue;
      const all = matrixTrials([asked]);
      const oneOfShape = ({ data, rows, k }: MatrixTrial) => data === 'random' && rows === 1 && k === 1;
      const trials = asked === 'binary' ? all.filter(oneOfShape) : all;
      const start = peerStart(programs.python, 'torch_peer.py', trials);
      const printed = await stages.run({ name: `torch, ${asked}`, most: Infinity, own: false }, start);
      times.set(asked, printed as unknown as PeerTime[]);
    }
    addPeers(kernels, times.get(format) ?? [], times.get(peerFormat(format)) ?? []);
    rows.push(...kernels);
    save?.(rows);
  }
  const { problems, failed } = stages;
  return { rows, problems, failed };
}

/** The format of the head that cuBLAS multiplies by, beside one of this format. */
function peerFormat(format: HeadFormat): HeadFormat {
  return format === 'binary' ? 'bfloat16' : format;
}

/** `own` are times with the same weights as `rows`, `multiplied` those of the product. */
function addPeers(rows: Row[], own: PeerTime[], multiplied: PeerTime[]): void {
  const fastest = new Map<string, number>();
  const reads = new Map<string, number>();
  for (const { peer, us, ...shape } of own) {
    const key = shapeKey(shape);
    fastest.set(key, Math.min(us, fastest.get(key) ?? Infinity));
    if (peer === 'torchRead') reads.set(key, us);
  }
  const products = new Map(
    multiplied.filter(({ peer }) => peer === 'torch').map((time) => [cellKey(time as unknown as Cell), time.us]),
  );
  for (const row of rows) {
    const read = reads.get(shapeKey(row));
    if (read !== undefined) row.peers.torchRead = read;
    row.floorUs = Math.min(row.floorUs ?? Infinity, fastest.get(shapeKey(row)) ?? Infinity);
    if (row.floorUs === Infinity) row.floorUs = null;
    const us = products.get(cellKey(row));
    if (us !== undefined) row.peers[row.format === 'binary' ? 'torchBfloat16' : 'torch'] = us;
  }
}

type Cell = Omit<Trial, 'format'> & { data?: Data };

function shapeKey({ vocab, hidden }: { vocab: number; hidden: number }): string {
  return `${vocab} ${hidden}`;
}

/** Of the cells of one format. */
export function cellKey({ rows, k, data, ...shape }: Cell): string {
  return [shapeKey(shape), rows, k, data].join(' ');
}

/**
 * Rows of an earlier file that a run of some formats may stand beside: those of the others, from the same GPU and the same
 * commit. What was built from changed files is of no commit.
 */
export function otherFormats(
  earlier: Results | undefined,
  { gpu, commit }: Pick<Results, 'gpu' | 'commit'>,
  formats: readonly HeadFormat[],
): Row[] {
  const known = commit !== 'unknown' && !commit.endsWith('-dirty');
  if (earlier === undefined || !known || earlier.gpu !== gpu || earlier.commit !== commit) return [];
  return earlier.rows.filter(({ format }) => !formats.includes(format));
}
