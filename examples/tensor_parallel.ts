/**
 * A head cut in N, one shard a process, and the same tokens as one process: on GPUs over NCCL, without GPUs over TCP. Started
 * by itself it starts its N processes; under torchrun, srun or mpirun it is one of them.
 * usage: node dist/examples/tensor_parallel.js [--processes N] [--tokens N] [--format FORMAT]
 */
import { Command, Option } from 'commander';
import { positiveInteger } from './options';
import type { RankOptions } from './tensor_parallel/rank';
import { startRanks } from './tensor_parallel/start';

async function main(): Promise<void> {
  const options = new Command('tensor_parallel')
    .description('Greedy decoding with a language-model head that is cut into shards, one a process.')
    .option('--processes <n>', 'how many to start; not looked at where RANK is set', positiveInteger, 2)
    .option('--tokens <n>', 'how many to decode', positiveInteger, 32)
    .addOption(
      new Option('--format <format>', 'type of the weights')
        .choices(['float32', 'bfloat16', 'float16', 'binary'])
        .default('bfloat16'),
    )
    .allowExcessArguments(false)
    .parse()
    .opts<RankOptions & { processes: number }>();
  if (process.env['RANK'] === undefined) {
    if (!(await startRanks(options.processes))) process.exitCode = 1;
    return;
  }
  const { runRank } = await import('./tensor_parallel/rank.js'); // TensorFlow is for the ranks alone
  runRank(options);
}

main().catch((error: unknown) => {
  console.error((error as Error).message);
  process.exitCode = 1;
});
