"""Adjusted p-values of one family, controlling the family-wise error rate or the false discovery rate.

An adjusted p-value at or below alpha is the decision: nothing else need be compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Literal

Adjustment = Literal["bonferroni", "holm", "hochberg", "hommel", "BH", "BY"]
"""The first four bound the chance of any false alarm (Hochberg and Hommel: of independent or positively dependent
tests); BH (such tests) and BY (any tests) bound the expected share of false alarms among the alarms."""


def adjust(
    p_values: Sequence[float | None], method: Adjustment = "holm", *, family_size: int | None = None
) -> list[float | None]:
    """Return adjusted p-values in the order of `p_values`.

    R: p.adjust(p_values, method). None stays None and does not count, unless `family_size` is the number of
    comparisons: those without a p-value then count as 1, so that a family does not become easier by failing to measure.
    Raises ValueError for a p-value outside [0, 1] and for NaN. Holm 1979; Hochberg 1988; Hommel 1988; Benjamini &
    Hochberg 1995; Benjamini & Yekutieli 2001.

    >>> adjust([0.01, None, 0.04, 0.03], "BH")
    [0.03, None, 0.04, 0.04]
    """
    steps = {name.lower(): function for name, function in _STEPS.items()}.get(str(method).lower())
    if steps is None:
        raise ValueError(f"method must be one of {', '.join(_STEPS)}, not {method!r}")
    measured = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    ascending = [float(p) for p, _ in measured]
    _check(ascending, family_size)
    adjusted: list[float | None] = [None] * len(p_values)
    size = len(ascending) if family_size is None else family_size
    for (_, position), p in zip(measured, steps(ascending, size), strict=True):
        adjusted[position] = min(1.0, p)
    return adjusted


def holm(p_values: Sequence[float | None], *, family_size: int | None = None) -> list[float | None]:
    """Return Holm's step-down adjusted p-values, in the order of `p_values`.

    R: p.adjust(p_values, method="holm"). The default for all families: valid under any dependence. None and
    `family_size` as in `adjust`. Holm 1979.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    >>> holm([0.01], family_size=3)
    [0.03]
    """
    return adjust(p_values, "holm", family_size=family_size)


def _check(measured: list[float], family_size: int | None) -> None:
    outside = [p for p in measured if not 0.0 <= p <= 1.0]
    if outside:
        raise ValueError(f"{len(outside)} of {len(measured)} p-values lie outside [0, 1], first {outside[0]!r}")
    if family_size is not None and family_size < len(measured):
        raise ValueError(f"a family of {family_size} cannot have {len(measured)} p-values")


def _bonferroni(ascending: list[float], size: int) -> list[float]:
    return [size * p for p in ascending]


def _holm(ascending: list[float], size: int) -> list[float]:
    # The running maximum keeps the adjusted p-values in the order of the raw ones.
    return list(accumulate(((size - rank) * p for rank, p in enumerate(ascending)), max))


def _hochberg(ascending: list[float], size: int) -> list[float]:
    return _running_minimum_from_right((size - rank) * p for rank, p in enumerate(ascending))


def _benjamini_hochberg(ascending: list[float], size: int) -> list[float]:
    return _running_minimum_from_right(size / rank * p for rank, p in enumerate(ascending, 1))


def _benjamini_yekutieli(ascending: list[float], size: int) -> list[float]:
    # The price of arbitrary dependence: a factor of about log(size).
    harmonic = sum(1 / rank for rank in range(1, size + 1))
    return _running_minimum_from_right(harmonic * size / rank * p for rank, p in enumerate(ascending, 1))


def _running_minimum_from_right(values: Iterable[float]) -> list[float]:
    return list(accumulate(reversed(list(values)), min))[::-1]


def _hommel(ascending: list[float], size: int) -> list[float]:
    """Return Hommel's p-values: the closed test of all intersections by Simes, in O(n log n).

    Meijer, Krebs & Goeman 2019 (Biom J 61:1255). At alpha, at most h hypotheses can be true, h being the largest m
    whose m largest p-values Simes does not reject; p is rejected when h p <= alpha. So its adjusted value is the
    smallest over m of max(m p, Simes of any more than m).
    """
    # Comparisons without a p-value count as 1.
    padded = ascending + [1.0] * (size - len(ascending))
    limits = _running_minimum_from_right(-p for p in _simes_of_largest(padded))
    at_least = [-limit for limit in limits] + [0.0]
    adjusted, most = [], size
    for p in ascending:
        # Both sides are monotone in m, and their crossing moves down as p grows, so one pass over m is enough.
        while most and (most - 1) * p >= at_least[most - 1]:
            most -= 1
        adjusted.append(min(max(most * p, at_least[most]), at_least[most - 1] if most else 1.0))
    return adjusted


def _simes_of_largest(ascending: list[float]) -> list[float]:
    """Return Simes' p-values of the m largest p-values, min over k of m p_k / k, for m = 1, 2, ...

    p_k / k is the slope from (n - m, 0) to the point (n - m + k, p_k), so the minimum touches the lower convex hull of
    these points; as m grows the hull gains a point at the left, and the touching point never returns to the right.
    """
    hull: deque[tuple[int, float]] = deque()
    simes = []
    for origin in range(len(ascending) - 1, -1, -1):
        point = (origin + 1, ascending[origin])
        while len(hull) > 1 and _slope(point, hull[0]) >= _slope(point, hull[1]):
            hull.popleft()
        hull.appendleft(point)
        while len(hull) > 1 and _slope((origin, 0.0), hull[-2]) <= _slope((origin, 0.0), hull[-1]):
            hull.pop()
        simes.append((len(ascending) - origin) * _slope((origin, 0.0), hull[-1]))
    return simes


def _slope(start: tuple[int, float], end: tuple[int, float]) -> float:
    return (end[1] - start[1]) / (end[0] - start[0])


_STEPS: dict[str, Callable[[list[float], int], list[float]]] = {
    "bonferroni": _bonferroni,
    "holm": _holm,
    "hochberg": _hochberg,
    "hommel": _hommel,
    "BH": _benjamini_hochberg,
    "BY": _benjamini_yekutieli,
}
