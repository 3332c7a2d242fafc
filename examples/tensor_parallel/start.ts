import { execFileSync, spawn } from 'node:child_process';
import { freePort } from './free_port';

/** Starts this program once a rank, with the variables that torchrun would set; resolves to whether all have succeeded. */
export async function startRanks(processes: number): Promise<boolean> {
  const gpus = gpuCount();
  const onGpus = gpus >= processes;
  console.log(
    onGpus
      ? `${processes} processes, one a GPU.`
      : `${processes} processes on the CPU: NCCL would need a GPU for each, and there are ${gpus} here.`,
  );
  const port = String(await freePort());
  const ranks = Array.from({ length: processes }, (_, rank) => {
    const env = {
      ...process.env,
      RANK: String(rank),
      LOCAL_RANK: String(rank),
      WORLD_SIZE: String(processes),
      MASTER_ADDR: '127.0.0.1',
      MASTER_PORT: port,
      ...(onGpus ? {} : { CUDA_VISIBLE_DEVICES: '-1' }), // environment.ts chooses by LOCAL_RANK
    };
    const child = spawn(process.execPath, process.argv.slice(1), { env, stdio: 'inherit' });
    return new Promise<boolean>((resolve) => {
      child.on('error', () => resolve(false));
      child.on('exit', (code) => resolve(code === 0));
    });
  });
  return (await Promise.all(ranks)).every(Boolean);
}

/** How many GPUs CUDA would show to a process that is started here. */
function gpuCount(): number {
  const listed = process.env['CUDA_VISIBLE_DEVICES'];
  if (listed !== undefined) return listed.split(',').filter((gpu) => gpu !== '' && gpu !== '-1').length;
  try {
    return execFileSync('nvidia-smi', ['--list-gpus'], { encoding: 'utf8' }).trim().split('\n').filter(Boolean).length;
  } catch {
    return 0;
  }
}
