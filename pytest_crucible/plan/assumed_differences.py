"""Assumed differences of bounded scores, for a run that has no data yet."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Array

# Enough quantiles that a planned size hardly depends on their number.
SCORES = 200
# Quantiles of the normal distribution, which represent a sample of any size.
NORMAL: Array = np.asarray(ndtri((np.arange(SCORES) + 0.5) / SCORES))


def assumed_differences(deviation: float, span: float) -> Array:
    """Return normal differences of scores, or of groups, with this standard deviation, clipped at both ends.

    >>> differences = assumed_differences(0.25, 1.0)
    >>> differences.size, round(float(differences.std()), 3)
    (200, 0.249)
    """
    return np.clip(deviation * NORMAL, -span, span)
