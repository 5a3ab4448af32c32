"""Ignore differences that are rounding: sums of the same terms in another order, or in single precision."""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.measures.row import Floats, Numbers

# Sums in single precision agree to six digits, and reports show at most six decimals.
NOISE = 1e-6


def without_rounding(first: Floats, second: Floats, bounds: Numbers) -> Floats:
    """Return the second values, after replacing those that differ from the first by less than a millionth of the range.

    Without a finite range, it is a millionth of the larger value. Otherwise a constant difference of 1e-9 would be as
    certain as any other constant difference.

    >>> without_rounding(np.array([0.5, 0.5]), np.array([0.5 + 1e-9, 0.6]), (0.0, 1.0)).tolist()
    [0.5, 0.6]
    """
    span = bounds[1] - bounds[0]
    scale = span if math.isfinite(span) else np.maximum(np.abs(first), np.abs(second))
    return np.where(np.abs(first - second) <= NOISE * scale, first, second)


def is_tiny_mean(difference: float | None, bounds: Numbers) -> bool:
    """Return whether a mean difference is below a millionth of a finite range, so that it is shown as 0 and favours no arm.

    >>> is_tiny_mean(-4e-7, (0.0, 1.0)), is_tiny_mean(-0.01, (0.0, 1.0))
    (True, False)
    """
    span = bounds[1] - bounds[0]
    return difference is not None and math.isfinite(span) and abs(difference) <= NOISE * span
