// Stands in for bench/gpus_rank: prints times that tell which rank they are of. FAKE_FAULT is 'token' or 'exit'.
const [rank, worldSize] = [Number(process.env.RANK), Number(process.env.WORLD_SIZE)];
const fault = rank === 1 ? process.env.FAKE_FAULT : undefined;
const print = (op, measure, us, token) => console.log(JSON.stringify({ op, measure, us, token }));

const alone = worldSize === 1;
print('vocab_parallel_step', 'stream', alone ? 40 : 50 + rank, 7);
print('vocab_parallel_step', 'dataSync', alone ? 90 : 100 + rank, 7);
if (fault === 'exit') process.exit(3);
print('decode_step', 'stream', alone ? 600 : 300 + rank, fault === 'token' ? 8 : 9);
