"""Division of a limit among workers by what each can use. Pure arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping


def divide(limit: float, wants: Mapping[str, float]) -> dict[str, float]:
    """Return each worker's part of a limit: at most what it wants while others want more (max-min fairness).

    What is left over is divided equally, so that a worker that begins to send has a part already.

    >>> divide(50, {"a": math.inf, "b": 10, "c": math.inf})
    {'a': 20.0, 'b': 10.0, 'c': 20.0}
    >>> divide(50, {"a": 10, "b": 20})
    {'a': 20.0, 'b': 30.0}
    """
    if limit == math.inf:
        return dict.fromkeys(wants, math.inf)
    parts, left, many = dict.fromkeys(wants, 0.0), limit, len(wants)
    for worker in sorted(wants, key=wants.__getitem__):
        parts[worker] = min(wants[worker], left / many)
        left -= parts[worker]
        many -= 1
    return {worker: part + max(0.0, left) / len(wants) for worker, part in parts.items()}


def divide_whole(limit: float, wants: Mapping[str, float], turn: int) -> dict[str, float]:
    """Return whole parts of a limit. What does not divide goes round: with each turn to the next workers.

    >>> divide_whole(1, {"a": math.inf, "b": math.inf}, turn=0), divide_whole(1, {"a": math.inf, "b": math.inf}, turn=1)
    ({'a': 1, 'b': 0}, {'a': 0, 'b': 1})
    """
    parts = divide(limit, wants)
    if limit == math.inf:
        return parts
    whole: dict[str, float] = {worker: math.floor(part) for worker, part in parts.items()}
    workers = list(whole)
    # Those that want more come first; a worker without requests takes no slot from one that waits.
    order = [workers[(number + turn) % len(workers)] for number in range(len(workers))]
    order.sort(key=lambda worker: whole[worker] >= wants[worker])
    for worker in order[: math.floor(limit - sum(whole.values()))]:
        whole[worker] += 1
    return whole
