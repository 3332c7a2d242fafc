"""Times cuBLAS + cast + torch.topk, torch.sum of a head's bytes, and argmax over logits, cut into shards or not.

Started by bench/gpu.ts and bench/matrix.ts, which give the trials. Those with `data`, the order of the scores, are cells of
the matrix: many, so each is replayed less often.
"""

import gc

import score_orders
from timing import Timer, emit, fail, load_torch, random_matrix, read_trials

GROUP_SIZE = 128
CELL_REPLAYS = 7


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
    # Each capture of a CUDA graph collects garbage; what has been loaded until now is none.
    gc.collect()
    gc.freeze()

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
            measure_shape(torch, timer, shape, same, failures)
        except Exception as error:  # such as too little memory: the other shapes may still fit
            failures.append(f"{format} {vocab} x {hidden}: {first_line(error)}")
        torch.cuda.empty_cache()
    if failures:
        more = f" and {len(failures) - 5} more" if len(failures) > 5 else ""
        fail("; ".join(failures[:5]) + more)


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def measure_shape(torch, timer, shape, trials, failures):
    format, vocab, hidden = shape["format"], shape["vocab"], shape["hidden"]
    words = head_bytes(format, vocab, hidden) // 4
    data = torch.ones(words, dtype=torch.float32, device="cuda")
    emit(peer="torchRead", us=timer.median(lambda: torch.sum(data)), **shape)
    del data
    if format == "binary":  # PyTorch has no such head
        return

    weight = random_matrix(torch, vocab, hidden, getattr(torch, format))
    if "data" in trials[0]:
        return measure_cells(torch, timer, shape, weight, trials, failures)
    for trial in trials:
        rows, k = trial["rows"], trial["k"]
        vectors = random_matrix(torch, rows, hidden, weight.dtype)
        us = timer.median(lambda: torch.topk((vectors @ weight.T).float(), k))
        emit(peer="torch", us=us, rows=rows, k=k, **shape)


def measure_cells(torch, timer, shape, weight, trials, failures):
    """Every order of scores in turn; only the head's first column changes, so the random ones come first."""
    orders = list(dict.fromkeys(t["data"] for t in trials))
    for order in sorted(orders, key=lambda order: order != "random"):
        same = [t for t in trials if t["data"] == order]
        most_rows, most_k = (max(t[name] for t in same) for name in ("rows", "k"))
        if order == "random":
            vectors, bias, expected = random_matrix(torch, most_rows, shape["hidden"], weight.dtype), None, None
        else:
            vectors, bias, expected = inject(torch, order, shape, weight, most_rows, most_k)
        for trial in same:
            rows, k = trial["rows"], trial["k"]
            some = vectors[:rows]

            def logits():
                if bias is None:
                    return (some @ weight.T).float()
                return torch.nn.functional.linear(some, weight, bias).float()

            try:
                check(torch, logits(), expected, rows, k)
                us = timer.median(lambda: torch.topk(logits(), k), replays=CELL_REPLAYS, warm_ups=1)
                emit(peer="torch", us=us, data=order, rows=rows, k=k, **shape)
            except Exception as error:
                failures.append(f"{order}, {rows} rows, k = {k}: {first_line(error)}")


def inject(torch, order, shape, weight, rows, k):
    """Sets the head's first column. Returns hidden, the bias or None, and the best k scores of each row."""
    format, vocab = shape["format"], shape["vocab"]
    column = score_orders.first_column(torch, order, vocab, format)
    bias = score_orders.bias_of(torch, order, vocab)
    weight[:, 0] = column.to(weight.dtype)
    first = torch.tensor([score_orders.hidden_of_row(row) for row in range(rows)], device="cuda")
    vectors = torch.zeros(rows, shape["hidden"], dtype=weight.dtype, device="cuda")
    vectors[:, 0] = first.to(weight.dtype)
    best = (column if bias is None else column + bias).sort(descending=True).values[:k]
    return vectors, None if bias is None else bias.to(weight.dtype), best * first[:, None]


def check(torch, logits, expected, rows, k):
    """A wrong result has no speed. Loosely: the values, and whether they are those of the ids and the best."""
    values, ids = torch.topk(logits, k)
    if expected is not None:
        right = torch.equal(values, expected[:rows, :k])
    else:
        right = int((logits > values[:, -1:]).sum(-1).max()) < k
    if not right or not torch.equal(logits.gather(-1, ids), values):
        raise RuntimeError("a wrong result")


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
