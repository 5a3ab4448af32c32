"""Missing values, handled before the statistics: drop the pairs, or count them as the worst value.

None and NaN are missing; an infinite value is an error. A failure is an outcome and counts as the worst value (intention
to treat). Dropping is a sensitivity analysis and reports how many pairs it dropped: a candidate that times out on hard
samples looks better when its failures are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, finite

Incomplete = Sequence[float | None] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletePairs:
    """The pairs without a missing value, in their order."""

    candidate: Array
    baseline: Array
    dropped: int
    """Pairs with a missing value in one arm or both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledValues:
    """All values, the missing ones replaced."""

    values: Array
    filled: int


def drop_incomplete(candidate: Incomplete, baseline: Incomplete) -> CompletePairs:
    """Return the complete pairs and the number of dropped ones.

    Raises ValueError for arms of unequal length and for infinite values.

    >>> pairs = drop_incomplete([0.7, None, 0.9], [0.6, 0.5, 0.4])
    >>> pairs.candidate, pairs.dropped
    (array([0.7, 0.9]), 1)
    """
    first, second = _check_incomplete(candidate, "candidate values"), _check_incomplete(baseline, "baseline values")
    if first.size != second.size:
        raise ValueError(f"pairs need equal lengths: {first.size} candidate values, {second.size} baseline values")
    complete = ~(np.isnan(first) | np.isnan(second))
    dropped = first.size - int(complete.sum())
    return CompletePairs(candidate=first[complete], baseline=second[complete], dropped=dropped)


def fill_worst(values: Incomplete, worst: float) -> FilledValues:
    """Return the values with missing ones replaced by the worst, and the number of replaced values.

    Raises ValueError for infinite values and when `worst` is not a finite number.

    >>> filled = fill_worst([0.7, None, 0.9], 0.0)
    >>> filled.values, filled.filled
    (array([0.7, 0. , 0.9]), 1)
    """
    if not np.isfinite(worst):
        raise ValueError(f"the worst value must be a finite number, not {worst!r}")
    array = _check_incomplete(values, "values")
    missing = np.isnan(array)
    return FilledValues(values=np.where(missing, worst, array), filled=int(missing.sum()))


def _check_incomplete(values: Incomplete, name: str) -> Array:
    """Return the values with NaN for missing ones, all others checked."""
    array = np.asarray(values, dtype=np.float64)
    # Only infinite values are left to refuse once NaN counts as missing.
    finite(np.where(np.isnan(array), 0.0, array), name=name)
    return array
