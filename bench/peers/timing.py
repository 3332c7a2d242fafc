"""What the peers share: how a time is taken, and how it is told to bench/gpu.ts."""

import json
import os
import statistics
import sys

REPLAYS = 20
FLUSH_BYTES = 64 << 20

# Only results may reach standard output; whatever a library prints goes to standard error.
_results = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def emit(**result):
    """Prints one result at once, so that it counts even if this program is ended early."""
    print(json.dumps(result), file=_results, flush=True)


def fail(reason):
    """Ends the program; `reason` is what the reader of the benchmark gets to see."""
    print(reason, file=sys.stderr)
    raise SystemExit(1)


def read_trials():
    return json.load(sys.stdin)["trials"]


def load_torch():
    try:
        import torch
    except ImportError as error:
        fail(f"{sys.executable} has no PyTorch ({error})")
    if not torch.cuda.is_available():
        fail("PyTorch finds no GPU")
    return torch


class Timer:
    """Median time of GPU work in a CUDA graph, in microseconds, with nothing of it left in the L2 cache."""

    def __init__(self, torch):
        self.torch = torch
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def median(self, work, replays=REPLAYS, warm_ups=3):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warm_ups):
                work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        times = []
        for i in range(replays + warm_ups):
            # The GPU waits until all is enqueued, so that Python's own time never shows.
            torch.cuda._sleep(200_000)
            self.flush.fill_(i)
            begin.record()
            graph.replay()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end) * 1000)
        return statistics.median(times[warm_ups:])


def random_matrix(torch, rows, columns, dtype):
    """Standard normal numbers, made piece by piece so that little memory is needed beside the result."""
    matrix = torch.empty(rows, columns, dtype=dtype, device="cuda")
    for part in matrix.split(max(1, (1 << 28) // columns)):
        part.normal_()
    return matrix
