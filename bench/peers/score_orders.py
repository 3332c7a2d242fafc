"""Orders in which scores can come; test/cuda/score_orders.h makes the same ones for the CUDA kernels, and explains them.

What takes `ids`, an int64 array, needs no more of it than operators.
"""

LEVELS = 1 << 18
CLUSTER_IDS = 4096
FINITE_IDS = 20

# Bits of a float32's mantissa that a number of the format has not.
_LOST_BITS = {"float32": 0, "bfloat16": 16, "float16": 13}


def _random_level(ids):
    mixed = ids * 0x9E3779B1 & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 15) * 0x85EBCA77 & 0xFFFFFFFF
    return (mixed ^ mixed >> 13) >> 14


def levels(order, ids, vocab):
    """Places among LEVELS values, ascending."""
    if order == "ascending":
        return ids * LEVELS // vocab
    if order == "descending":
        return (vocab - 1 - ids) * LEVELS // vocab
    if order == "equal":
        return ids * 0 + 3 * LEVELS // 4
    if order == "clustered":
        begin = vocab // 2 + 77
        best = ((ids >= begin) & (ids < begin + CLUSTER_IDS)) * 1
        return best * (LEVELS // 8 * 7 + _random_level(ids) // 8) + (1 - best) * (_random_level(ids) * 7 // 8)
    if order == "two values":
        return 3 * LEVELS // 4 + (_random_level(ids) >= LEVELS // 2) * (LEVELS // 16)
    if order == "mostly -inf":
        return _random_level(ids)
    raise ValueError(f"there is no order {order}")


def value_bits(levels, format):
    """Bits of the float32 values of levels, but for their sign, and 1 where they are negative, 0 elsewhere."""
    negative = (levels < LEVELS // 2) * 1
    step = negative * (LEVELS // 2 - 1 - levels) + (1 - negative) * (levels - LEVELS // 2)
    bits = 0x3D800000 + (step << 9)
    return bits >> _LOST_BITS[format] << _LOST_BITS[format], negative


def finite_ids(vocab):
    """Those of 'mostly -inf' that are not."""
    return [vocab * j // FINITE_IDS + 7 for j in range(FINITE_IDS)]


def hidden_of_row(row):
    return 2.0 ** (row % 5 - 2)


def first_column(torch, order, vocab, format):
    """float32 [vocab] on the device: numbers that the format has."""
    bits, negative = value_bits(levels(order, torch.arange(vocab, device="cuda"), vocab), format)
    return bits.to(torch.int32).view(torch.float32) * (1 - 2 * negative)


def bias_of(torch, order, vocab):
    """float32 [vocab] on the device, or None."""
    if order != "mostly -inf":
        return None
    bias = torch.full((vocab,), float("-inf"), device="cuda")
    bias[finite_ids(vocab)] = 0
    return bias
