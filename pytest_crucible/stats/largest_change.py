"""The largest change of one pair that is declared possible, as an assumption on differences."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array

Flags = npt.NDArray[np.bool_]


def beyond_reach(candidate: Array, baseline: Array, reach: float) -> Flags:
    """Return which pairs differ by more than the reach. A pair without a number does not.

    >>> beyond_reach(np.array([0.3, 0.9]), np.array([0.1, 0.5]), 0.2).tolist()
    [False, True]
    """
    with np.errstate(invalid="ignore"):
        change = np.abs(candidate - baseline)
        # 0.8 - 0.55 is 2e-16 more than 0.25, and averaged repeats round, too.
        rounding = 1e-9 * reach + 8 * np.finfo(np.float64).eps * np.maximum(np.abs(candidate), np.abs(baseline))
        # A lost value may be infinite.
        return np.asarray(np.isinf(change) | (change > reach + rounding))


def check_reach(reach: float) -> float:
    """Return the reach. Raises ValueError unless it is a positive finite number."""
    if not 0 < reach < math.inf:
        raise ValueError(f"reach={reach!r} must be a positive number: the largest change of one pair that is possible")
    return float(reach)
