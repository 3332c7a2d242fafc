/**
 * Draws results as SVG beside their files, for the README; needs no GPU.
 * usage: node dist/bench/plot.js [FILE.json ...]   (without a file: all of bench/results/)
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TopLevelSpec } from 'vega-lite';
import { packageRoot } from '../src/native/package_root';
import { cpuChart, kChart, rowsChart } from './charts';
import { matrixChart } from './matrix_chart';
import { readResults } from './results';

/** Draws the charts of a results file next to it and returns their paths. */
export async function drawFile(path: string): Promise<string[]> {
  const results = readResults(path);
  const base = path.replace(/\.json$/, '');
  const ofMatrix = results.rows.some((row) => row.data !== undefined);
  const onGpu = results.rows.some((row) => row.floorUs !== null);
  const charts: [name: string, chart: TopLevelSpec | undefined][] = ofMatrix
    ? [[`${base}.svg`, matrixChart(results)]]
    : onGpu
      ? [
          [`${base}-rows.svg`, rowsChart(results)],
          [`${base}-k.svg`, kChart(results)],
        ]
      : [[`${base}.svg`, cpuChart(results)]];
  const drawn: string[] = [];
  for (const [file, chart] of charts) {
    if (chart === undefined) continue;
    writeFileSync(file, await toSvg(chart));
    drawn.push(file);
  }
  return drawn;
}

async function toSvg(chart: TopLevelSpec): Promise<string> {
  // Loaded only now: measuring on a machine where they are not installed has to work. Both are ES modules.
  const [vega, vegaLite] = await Promise.all([import('vega'), import('vega-lite')]);
  const view = new vega.View(vega.parse(vegaLite.compile(chart).spec), { renderer: 'none' });
  try {
    return (await view.toSVG()) + '\n';
  } finally {
    view.finalize();
  }
}

async function main(files: string[]): Promise<void> {
  const folder = join(packageRoot(), 'bench', 'results');
  const all = () => readdirSync(folder).filter((name) => name.endsWith('.json'));
  for (const file of files.length > 0 ? files : all().map((name) => join(folder, name))) {
    for (const drawn of await drawFile(file)) console.log(drawn);
  }
}

if (require.main === module) {
  main(process.argv.slice(2)).catch((error: unknown) => {
    console.error((error as Error).message);
    process.exitCode = 1;
  });
}
