"""
Times FlashSampling's fused kernels (https://github.com/FlashSampling/FlashSampling): greedy sampling where k is 1, and its
top k with the merge of its parts otherwise. FLASHSAMPLING names a checkout. Started by bench/gpu.ts, which gives the trials.
"""

import os
import sys
import types

from timing import Timer, emit, fail, load_torch, random_matrix, read_trials

# Compiling in this process costs less than starting helpers for the little that is compiled here.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

# Its smallest tile keeps that many scores.
MOST_K = 128


def stand_ins():
    """FlashSampling imports these two for what is not timed here: other samplers, and marks in a profile."""
    if "flashinfer" not in sys.modules:
        sys.modules["flashinfer"] = types.ModuleType("flashinfer")
    if "nvtx" not in sys.modules:
        nvtx = types.ModuleType("nvtx")
        nvtx.annotate = lambda *_args, **_named: lambda function: function
        sys.modules["nvtx"] = nvtx


def load_kernels():
    checkout = os.environ["FLASHSAMPLING"]
    source = os.path.join(checkout, "src")
    if not os.path.isdir(os.path.join(source, "fused_mm_sampling")):
        fail(f"FLASHSAMPLING={checkout} has no src/fused_mm_sampling")
    sys.path.insert(0, source)
    stand_ins()
    try:
        from fused_mm_sampling.core import fused_mm_sample_triton
        from fused_mm_sampling.tl_fused_mm_topk import fused_mm_topk_triton
    except Exception as error:
        fail(f"FlashSampling in {checkout} cannot be imported: {type(error).__name__}: {error}")
    return fused_mm_sample_triton, fused_mm_topk_triton


def main():
    trials = read_trials()
    torch = load_torch()
    greedy_kernel, topk_kernel = load_kernels()
    torch.manual_seed(1)
    timer = Timer(torch)
    temperature = torch.tensor(1.0, device="cuda")
    weights = {}
    failures = []

    for trial in trials:
        format, rows, vocab, hidden, k = (trial[name] for name in ("format", "rows", "vocab", "hidden", "k"))
        if k > MOST_K:
            continue
        try:
            if (format, vocab, hidden) not in weights:
                weights = {(format, vocab, hidden): random_matrix(torch, vocab, hidden, getattr(torch, format))}
            weight = weights[format, vocab, hidden]
            vectors = random_matrix(torch, rows, hidden, weight.dtype)

            def greedy():
                return greedy_kernel(weight, vectors, 1, temperature, 0, greedy_sampling=True)

            def topk():
                values, ids = topk_kernel(weight, vectors, k, temperature)
                values = values.permute(1, 0, 2).reshape(rows, -1)
                ids = ids.permute(1, 0, 2).reshape(rows, -1)
                best, places = values.topk(k, dim=-1)
                return best, ids.gather(-1, places)

            check(torch, weight, vectors, k, greedy() if k == 1 else topk()[1])
            us = timer.median(greedy if k == 1 else topk)
            emit(peer="flashsampling", us=us, **trial)
        except Exception as error:
            failures.append(f"k = {k}, {rows} rows: {type(error).__name__}: {str(error).strip().splitlines()[:1]}")
    if failures:
        fail("; ".join(failures))


def check(torch, weight, vectors, k, ids):
    """A wrong result has no speed: the scores of `ids` must be the best k but for rounding to 16 bits."""
    scores = (vectors @ weight.T).float()
    best = scores.topk(k).values
    found = scores.gather(-1, ids.long().reshape(scores.shape[0], k)).sort(descending=True).values
    if not torch.allclose(found, best, rtol=2e-2):
        raise RuntimeError("wrong result")


main()
