"""Adjusted p-values of one family, controlling the family-wise error rate or the false discovery rate.

An adjusted p-value at or below alpha is the decision: nothing else need be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Literal

Adjustment = Literal["bonferroni", "holm", "BH"]
"""The first two bound the chance of any false alarm; BH bounds the expected share of false alarms among the alarms, of
independent or positively dependent tests."""


def adjust(
    p_values: Sequence[float | None], method: Adjustment = "holm", *, family_size: int | None = None
) -> list[float | None]:
    """Return adjusted p-values in the order of `p_values`.

    R: p.adjust(p_values, method). None stays None and does not count, unless `family_size` is the number of
    comparisons: those without a p-value then count as 1, so that a family does not become easier by failing to measure.
    Raises ValueError for a p-value outside [0, 1] and for NaN. Holm 1979; Benjamini & Hochberg 1995.

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


_STEPS: dict[str, Callable[[list[float], int], list[float]]] = {
    "bonferroni": lambda ascending, size: [size * p for p in ascending],
    # The running maximum, and below the running minimum from the right, keep the order of the raw p-values.
    "holm": lambda ascending, size: list(accumulate(((size - rank) * p for rank, p in enumerate(ascending)), max)),
    "BH": lambda ascending, size: list(
        accumulate((size / rank * p for rank, p in reversed(list(enumerate(ascending, 1)))), min)
    )[::-1],
}
