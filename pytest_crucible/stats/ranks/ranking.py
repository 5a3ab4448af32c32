"""Ranks with ties. Values within a rounding error are tied, so that 0.1 + 0.2 ties with 0.3.

Ranks are doubled: twice a mid-rank is an integer, and integers add up exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import ROUNDING, Array, finite, paired_arrays
from pytest_crucible.stats.interval import NotEnoughData

Counts = npt.NDArray[np.int64]

_DIGITS = 10
"""Significant decimals of a difference, counted from the leading digit of the larger of its two values."""


def levels(values: Array) -> tuple[Counts, Counts]:
    """Return the index of each value among the distinct values, from 0 upwards, and the size of each tie.

    >>> [array.tolist() for array in levels(np.array([0.3, 0.5, 0.1 + 0.2, 0.1]))]
    [[1, 2, 1, 0], [1, 2, 1]]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    size = np.abs(ordered)
    # The step from -1e308 to 1e308 overflows to infinity, which is still a step.
    with np.errstate(over="ignore"):
        steps = np.diff(ordered) > ROUNDING * np.maximum(size[1:], size[:-1])
    codes = np.empty(values.size, dtype=np.int64)
    codes[order] = np.concatenate(([0], np.cumsum(steps)))[: values.size]
    return codes, np.bincount(codes).astype(np.int64)


def arms_by_level(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, fewest: int = 1) -> tuple[Counts, Counts]:
    """Return the counts of each distinct value in the candidate and in the baseline, smallest value first.

    Every rank statistic of two independent arms follows from them. Raises ValueError for NaN, NotEnoughData below
    `fewest` values.

    >>> [array.tolist() for array in arms_by_level([2.0, 3.0, 3.0], [1.0, 3.0])]
    [[0, 1, 2], [1, 0, 1]]
    """
    first, second = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    if min(first.size, second.size) < fewest:
        raise NotEnoughData(
            f"{first.size} candidate and {second.size} baseline values: ranks need at least {fewest} of each"
        )
    codes, sizes = levels(np.concatenate((first, second)))
    inside = np.bincount(codes[: first.size], minlength=sizes.size).astype(np.int64)
    return inside, sizes - inside


def placements(levels_of: Counts, other: Counts) -> Counts:
    """Return twice the number of the other arm's values below each level; equal ones count half."""
    return 2 * np.cumsum(other) - other


def doubled_wins(first: Counts, second: Counts) -> int:
    """Return twice the Mann-Whitney U of the first arm: 2 for each pair that it wins, 1 for each tie.

    >>> doubled_wins(*arms_by_level([2.0, 3.0, 3.0], [1.0, 3.0]))
    8
    """
    return int(first @ placements(first, second))


def rounded_differences(candidate: npt.ArrayLike, baseline: npt.ArrayLike | None = None) -> Array:
    """Return candidate minus baseline, rounded to ten significant decimals of the larger value; R: round(x - y, 10).

    Otherwise 0.3 - 0.2 and 0.2 - 0.1 would have different ranks. Each pair has its own scale, so that one huge pair does
    not make the others equal. Without a baseline the values are differences already.

    >>> rounded_differences([0.3, 0.2, 3000.3], [0.2, 0.1, 3000.2]).tolist()
    [0.1, 0.1, 0.1]
    """
    if baseline is None:
        differences = finite(candidate, name="differences")
        scale = np.abs(differences)
    else:
        first, second = paired_arrays(candidate, baseline)
        with np.errstate(over="ignore"):
            differences = finite(first - second, name="differences")
        scale = np.maximum(np.abs(first), np.abs(second))
    return _to_decimals(differences, scale)


def _to_decimals(differences: Array, scale: Array) -> Array:
    exponents = np.ceil(np.log10(scale, out=np.zeros_like(scale), where=scale > 0))
    decimals = np.clip(_DIGITS - exponents, -290, 290)
    # Powers of ten are exact up to 1e22, and a quotient of integers is the double nearest to the decimal.
    power = 10.0 ** np.abs(decimals)
    fine = decimals >= 0
    whole = np.rint(np.where(fine, differences * np.where(fine, power, 1.0), differences / power))
    return np.where(fine, whole / power, whole * np.where(fine, 1.0, power))
