/** Settings that TensorFlow reads once, when it is loaded: import this file before tfjs. Values that the user has set stay. */

// One process a GPU. tfjs takes the last GPU that it sees, so each process has to see a GPU of its own and no other. Whoever
// starts the processes may have given all of them the same list (Slurm does), or one GPU to each.
const localRank = process.env['LOCAL_RANK'];
if (localRank !== undefined) {
  const gpus = process.env['CUDA_VISIBLE_DEVICES']?.split(',') ?? [];
  if (gpus.length !== 1) process.env['CUDA_VISIBLE_DEVICES'] = gpus[Number(localRank)] ?? localRank;
}
process.env['TF_FORCE_GPU_ALLOW_GROWTH'] ??= 'true';
process.env['TF_CPP_MIN_LOG_LEVEL'] ??= '2';
