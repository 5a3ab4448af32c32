"""The members of a sweep that go on after a look. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats import p_below_best
from pytest_crucible.stats.arrays import Labels
from pytest_crucible.stats.interval import NotEnoughData

LOOKS = (1 / 8, 1 / 4, 1 / 2)
"""The shares of the choosing half after which a sweep looks."""
ALPHA = 0.025
"""The chance that the best member is dropped by drop = "proven" is at most this, over all looks together.

Half of 5 %: the other half is for members that are proven worse at the end, so that those that may be the best are one
confidence set (Hsu 1984).
"""

Values = npt.NDArray[np.float64]


def members_that_go_on(values: Values, clusters: Labels | None, *, drop: str, looks: int) -> list[int]:
    """Return the columns of samples x members values that go on; higher is better, NaN is a lost value.

    `looks` is the number of planned looks, which share alpha equally. Samples that some member lost are left out.
    """
    columns = list(range(values.shape[1]))
    complete = ~np.isnan(values).any(axis=1)
    if drop == "none" or len(columns) < 2 or not complete.any():
        return columns
    if drop == "half":
        return better_half(values[complete].mean(axis=0))
    kept = None if clusters is None else np.asarray(clusters)[complete]
    return _may_be_best(values[complete], kept, ALPHA / looks)


def better_half(means: Sequence[float] | Values) -> list[int]:
    """Return the columns with the higher means, in their order; the first of equal ones.

    >>> better_half([0.5, 0.9, 0.5])
    [0, 1]
    """
    best_first = sorted(range(len(means)), key=lambda column: -means[column])
    return sorted(best_first[: (len(best_first) + 1) // 2])


def best_member(means: Sequence[float] | Values) -> int:
    """Return the column with the highest mean; of equal ones the first, which is the first of the grid.

    >>> best_member([0.5, 0.9, 0.9])
    1
    """
    numbers = np.asarray(means, dtype=np.float64)
    # Equal means of other sums may differ by rounding.
    return int(np.argmax(numbers >= numbers.max() - 1e-12 * max(1.0, abs(numbers.max()))))


def _may_be_best(values: Values, clusters: Labels | None, alpha: float) -> list[int]:
    """Return the columns that may be the best (Gupta 1965): the best one is not among them in at most alpha of sweeps."""
    try:
        p_values = p_below_best(values, clusters=clusters)
    except NotEnoughData:
        return list(range(values.shape[1]))
    return [column for column, p_value in enumerate(p_values) if p_value > alpha]
