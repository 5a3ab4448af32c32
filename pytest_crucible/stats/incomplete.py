"""Missing values, decided about before the statistics: drop the pairs, or count them as the worst.

None and NaN are missing; an infinite value is an error. What failed is an outcome, and counts as the worst (intention
to treat); dropping is a sensitivity analysis, and says how much it dropped. A candidate that times out on hard samples
looks better for it when only its failures are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.observations import Array, finite

Incomplete = Sequence[float | None] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletePairs:
    """The pairs of which both values are known, in their order."""

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
    """Only the pairs that are complete, and how many were not.

    Raises ValueError for arms of unequal length and for infinite values.

    >>> pairs = drop_incomplete([0.7, None, 0.9], [0.6, 0.5, 0.4])
    >>> pairs.candidate, pairs.dropped
    (array([0.7, 0.9]), 1)
    """
    first, second = _known(candidate, "candidate values"), _known(baseline, "baseline values")
    if first.size != second.size:
        raise ValueError(f"pairs need equal lengths: {first.size} candidate values, {second.size} baseline values")
    complete = ~(np.isnan(first) | np.isnan(second))
    dropped = first.size - int(complete.sum())
    return CompletePairs(candidate=first[complete], baseline=second[complete], dropped=dropped)


def fill_worst(values: Incomplete, worst: float) -> FilledValues:
    """Every missing value replaced by the worst possible one, and how many were.

    Raises ValueError for infinite values and when `worst` is not a finite number.

    >>> filled = fill_worst([0.7, None, 0.9], 0.0)
    >>> filled.values, filled.filled
    (array([0.7, 0. , 0.9]), 1)
    """
    if not np.isfinite(worst):
        raise ValueError(f"the worst value must be a finite number, not {worst!r}")
    array = _known(values, "values")
    missing = np.isnan(array)
    return FilledValues(values=np.where(missing, worst, array), filled=int(missing.sum()))


def _known(values: Incomplete, name: str) -> Array:
    """The values with NaN for what is missing, all others checked."""
    array = np.asarray(values, dtype=np.float64)
    finite(np.where(np.isnan(array), 0.0, array), name=name)
    return array
