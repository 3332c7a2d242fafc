"""Times cuBLAS + cast + torch.topk, torch.sum of a head's bytes, and argmax over logits, cut into shards or not.

Started by bench/gpu.ts, which gives the trials.
"""

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

    for trial in [t for t in trials if "op" in t]:
        trials.remove(trial)
        try:
            measure_argmax(torch, timer, trial)
        except Exception as error:
            failures.append(f"{trial['op']}: {first_line(error)}")
    shapes = dict.fromkeys((t["format"], t["vocab"], t["hidden"]) for t in trials)
    for format, vocab, hidden in shapes:
        shape = dict(format=format, vocab=vocab, hidden=hidden)
        same = [t for t in trials if all(t[name] == value for name, value in shape.items())]
        try:
            measure_shape(torch, timer, shape, same)
        except Exception as error:  # such as too little memory: the other shapes may still fit
            failures.append(f"{format} {vocab} x {hidden}: {first_line(error)}")
        torch.cuda.empty_cache()
    if failures:
        fail("; ".join(failures))


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


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


def measure_argmax(torch, timer, trial):
    rows, ranks = trial["rows"], trial["ranks"]
    logits = random_matrix(torch, rows, trial["vocab"], getattr(torch, trial["format"]))
    if trial["op"] == "argmax":
        emit(peer="torch", us=timer.median(lambda: torch.argmax(logits, dim=-1)), **trial)
        return
    # Every rank's best value and id, float32 as they travel together. This rank writes its own pairs; the gather is left out.
    vocab_start = trial["vocab"]
    gathered = torch.zeros(ranks, rows, 2, device="cuda")

    def reduce():
        value = torch.amax(logits, dim=-1)
        index = torch.argmax(logits, dim=-1) + vocab_start
        torch.stack((value.float(), index.float()), dim=-1, out=gathered[1])
        best_rank = torch.argmax(gathered[..., 0], dim=0, keepdim=True)
        return torch.gather(gathered[..., 1], 0, best_rank).long()

    us = timer.median(reduce)
    token = reduce().squeeze(0)
    expected = torch.argmax(logits, dim=-1) + vocab_start
    if not torch.equal(token, expected):  # the other ranks' zeros are worse than the best of thousands of normal numbers
        raise RuntimeError("the reduction in separate kernels gives a wrong token")
    emit(peer="torch", us=us, **trial)


main()
