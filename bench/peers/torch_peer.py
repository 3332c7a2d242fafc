"""Times cuBLAS + cast + torch.topk, and torch.sum of a head's bytes. Started by bench/gpu.ts, which gives the trials."""

from timing import Timer, emit, fail, load_torch, random_matrix, read_trials

GROUP_SIZE = 128


def head_bytes(format, vocab, hidden):
    if format == "binary":
        return vocab * (hidden // 8 + hidden // GROUP_SIZE * 2)
    return vocab * hidden * (4 if format == "float32" else 2)


def main():
    trials = read_trials()
    torch = load_torch()
    # The product of float32 factors stays one: no TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    timer = Timer(torch)
    failures = []

    shapes = dict.fromkeys((t["format"], t["vocab"], t["hidden"]) for t in trials)
    for format, vocab, hidden in shapes:
        shape = dict(format=format, vocab=vocab, hidden=hidden)
        same = [t for t in trials if all(t[name] == value for name, value in shape.items())]
        try:
            measure_shape(torch, timer, shape, same)
        except Exception as error:  # such as too little memory: the other shapes may still fit
            failures.append(f"{format} {vocab} x {hidden}: {str(error).strip().splitlines()[0]}")
        torch.cuda.empty_cache()
    if failures:
        fail("; ".join(failures))


def measure_shape(torch, timer, shape, trials):
    format, vocab, hidden = shape["format"], shape["vocab"], shape["hidden"]
    words = head_bytes(format, vocab, hidden) // 4
    data = torch.ones(words, dtype=torch.float32, device="cuda")
    emit(peer="torchRead", us=timer.median(lambda: torch.sum(data)), **shape)
    del data
    if format == "binary":  # PyTorch has no such head
        return

    weight = random_matrix(torch, vocab, hidden, getattr(torch, format))
    for trial in trials:
        rows, k = trial["rows"], trial["k"]
        vectors = random_matrix(torch, rows, hidden, weight.dtype)
        us = timer.median(lambda: torch.topk((vectors @ weight.T).float(), k))
        emit(peer="torch", us=us, rows=rows, k=k, **shape)


main()
