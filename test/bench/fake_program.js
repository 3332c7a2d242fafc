#!/usr/bin/env node
// Stands in for every program that a benchmark starts: cuda_test, the peers in Python, the op's times. It prints what they
// would, with times that follow from the shape, about those of an H200. FAKE_HANG names a peer that never ends, or a format
// whose matrix does not; FAKE_WRONG makes one cell of the matrix of that format fail.
const { text } = require('node:stream/consumers');

const BYTES = { float32: 4, bfloat16: 2, float16: 2, binary: 0.140625 };
const floor = ({ format, vocab, hidden }) => (vocab * hidden * BYTES[format]) / 4.33e6 + 3;
const print = (object) => console.log(JSON.stringify(object));

function cudaTest() {
  console.log('verified');
  print({ op: 'lm_head_topk_launch', format: 'float16', rows: 1, vocab: 64, hidden: 128, k: 50, us: 9.5 });
  for (const rows of [1, 2, 4, 8, 64]) {
    const shard = { format: 'bfloat16', vocab: 32768, rows, floorUs: 2.5, scratchBytes: 64 * rows };
    print({ op: 'vocab_parallel_argmax', ...shard, us: rows === 64 ? 6.5 : 4.5 });
    print({ op: 'argmax', ...shard, us: rows === 64 ? 9.5 : 3.5 });
  }
  for (const [vocab, hidden] of [
    [248320, 5120],
    [50257, 768],
    [30522, 384],
  ]) {
    for (const format of ['bfloat16', 'float16', 'float32', 'binary']) {
      for (const rows of [1, 8, 64]) {
        for (const k of [1, 50, 512, 2048]) {
          const slower = (rows === 64 ? 1.1 : rows === 8 ? 1.006 : 1.004) * (1 + k / 16384);
          for (const option of [{}, { bias: true }, { logSumExp: true }]) {
            if (Object.keys(option).length > 0 && k !== 50) continue;
            const shape = {
              op: 'lm_head_topk',
              format,
              rows,
              vocab,
              hidden,
              k,
              bias: false,
              logSumExp: false,
              ...option,
            };
            print({
              ...shape,
              us: floor(shape) * slower,
              floorUs: floor(shape),
              scratchBytes: rows * k * 512,
              launches: 3,
            });
          }
        }
      }
    }
  }
}

const MATRIX_SHAPES = [
  [30522, 384],
  [32000, 2048],
  [32000, 4096],
  [50257, 768],
  [128256, 2048],
  [151936, 1024],
  [201088, 2880],
  [248320, 5120],
  [262144, 640],
];
const ORDERS = ['random', 'ascending', 'descending', 'equal', 'clustered', 'two values', 'mostly -inf'];

function matrix(format) {
  for (const [vocab, hidden] of MATRIX_SHAPES) {
    for (const data of ORDERS) {
      for (const rows of data === 'random' ? [1, 8, 64, 2, 4, 16, 32, 128, 256] : [1, 8, 64]) {
        for (const k of [1, 50, 512, 2048]) {
          const cell = { op: 'lm_head_topk', format, vocab, hidden, k, rows, bias: data === 'mostly -inf', data };
          if (process.env.FAKE_WRONG === format && vocab === 32000 && rows === 8 && k === 512 && data === 'equal') {
            print({ ...cell, failed: 'id 7 with 1.0' });
            process.exitCode = 1;
            continue;
          }
          // One cliff: 64 rows, 2,048 of 32,000, ascending.
          const cliff = vocab === 32000 && rows === 64 && k === 2048 && data === 'ascending' ? 40 : 1;
          const us = floor(cell) * (1 + k / 32768) * (1 + rows / 4096) * cliff;
          print({ ...cell, logSumExp: false, us, floorUs: floor(cell), scratchBytes: rows * k * 128, launches: 3 });
        }
      }
    }
    if (process.env.FAKE_HANG === format && vocab === 32000) return hang();
  }
}

function hang() {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1e6);
}

function torchPeer(trials) {
  const read = new Set();
  for (const trial of trials) {
    const { format, vocab, hidden, rows } = trial;
    if (trial.op !== undefined) {
      print({ peer: 'torch', ...trial, us: trial.op === 'argmax' ? 12 : 26.5 });
      continue;
    }
    const shape = [format, vocab, hidden].join();
    if (!read.has(shape)) print({ peer: 'torchRead', format, vocab, hidden, us: floor(trial) * 0.995 });
    read.add(shape);
    if (format !== 'binary') print({ peer: 'torch', ...trial, us: floor(trial) * (rows === 64 ? 1.5 : 1.2) + 15 });
  }
}

function flashSamplingPeer(trials) {
  for (const trial of trials) {
    const greedy = { 1: 0.99, 8: 1.02, 64: 1.12 }[trial.rows];
    const slower = trial.k === 1 ? greedy : trial.rows === 64 ? 4.3 : 1.5;
    print({ peer: 'flashsampling', ...trial, us: floor(trial) * slower });
    if (process.env.FAKE_HANG === 'flashsampling') hang();
  }
}

function opTimes({ trials, onlyTfjs }) {
  print({ trial: trials[0], measure: 'first', ...(onlyTfjs ? { tfjs: 1 } : { us: 9000 }) });
  for (const trial of trials) {
    const stock = floor({ ...trial, format: 'float32' }) * 2.8;
    if (!onlyTfjs) print({ trial, measure: 'sync', us: floor(trial) + 35 });
    for (const measure of ['host', 'stream', 'dataSync']) {
      const us = measure === 'host' ? 20 : floor(trial) + (measure === 'stream' ? 5 : 45);
      print({ trial, measure, ...(!onlyTfjs && { us }), tfjs: measure === 'host' ? 55 : stock, tfjsNeg: 18 });
    }
  }
}

async function main() {
  const asked = process.argv.slice(2).join(' ');
  if (asked === '--bench --json') return cudaTest();
  if (asked.startsWith('--matrix --json --format ')) return matrix(asked.split(' ')[3]);
  const input = JSON.parse(await text(process.stdin));
  if (asked.endsWith('torch_peer.py')) return torchPeer(input.trials);
  if (asked.endsWith('flashsampling_peer.py')) return flashSamplingPeer(input.trials);
  return opTimes(input);
}

void main();
