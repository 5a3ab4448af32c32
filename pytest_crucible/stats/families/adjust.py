"""Many p-values, one family: the chance of any false alarm is kept at alpha."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None], *, family_size: int | None = None) -> list[float | None]:
    """Holm's step-down adjusted p-values, in the given order; R: p.adjust(p_values, method="holm").

    None stays None and does not count, unless `family_size` says how many questions were asked: those without a
    p-value then count as 1, so that a family does not become easier by failing to measure. Holm 1979.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    >>> holm([0.01], family_size=3)
    [0.03]
    """
    measured = sorted((p, position) for position, p in enumerate(p_values) if p is not None)
    _check([p for p, _ in measured], family_size)
    remaining = len(measured) if family_size is None else family_size
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for p, position in measured:
        largest = max(largest, min(1.0, remaining * p))
        adjusted[position] = largest
        remaining -= 1
    return adjusted


def _check(measured: list[float], family_size: int | None) -> None:
    strange = [p for p in measured if not 0.0 <= p <= 1.0]
    if strange:
        raise ValueError(f"{len(strange)} of {len(measured)} p-values lie outside [0, 1], first {strange[0]!r}")
    if family_size is not None and family_size < len(measured):
        raise ValueError(f"a family of {family_size} cannot have {len(measured)} p-values")
