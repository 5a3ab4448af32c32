"""The interval of a mean with several independent sources of random variation, by Banerjee's combination of t intervals.

Half-width^2 = sum of (t_i se_i)^2, with the t quantile of each source's own degrees of freedom (Banerjee 1960, Sankhya
22:357; 1961, Sankhya A 23:359). Its error rate is at most alpha for any sizes of the sources, since the distribution
function of a squared normal variable is concave. Satterthwaite's degrees of freedom for the sum reach 7.9 % at a nominal
5 %, and 2.8 % at 0.5 %, where a source has three levels (docs/decisions/0021 has the table).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pytest_crucible.stats.arrays import check_share

FEWEST_LEVELS = 3
"""Levels that a random factor needs for a verdict: with two, the t quantile at 95 % is 12.7."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of a mean's random variation, such as the choice of samples or of prompts."""

    name: str
    levels: int
    dof: float
    variance: float
    """The part of the mean's variance that is estimated from this source's levels."""
    floor: float = 0.0
    """The part of `variance` that the samples contain already, so that it is counted once."""


def half_width(sources: Sequence[Source], alpha: float) -> float:
    """Return the half-width of the two-sided interval that errs in at most `alpha`.

    The first source contains the floors of the others. Exact with one source; R: qt(1 - alpha / 2, dof) * se.

    >>> samples = Source(name="samples", levels=50, dof=49, variance=0.0004)
    >>> round(half_width([samples], 0.05), 4)
    0.0402
    >>> round(half_width([samples, Source(name="prompts", levels=5, dof=4, variance=0.0001)], 0.05), 4)
    0.0488
    """
    check_share(alpha, "alpha")
    return _half_width(sources, math.log(alpha / 2))


def p_value(sources: Sequence[Source], distance: float) -> float:
    """Return the smallest alpha at which `half_width` is at most `distance`: the p-value of "the distance is 0".

    >>> round(p_value([Source(name="samples", levels=50, dof=49, variance=0.0004)], 0.0402), 3)
    0.05
    """
    target = abs(distance)
    low, high = math.log(SMALLEST / 2), math.log(0.5)
    # Bisection on the logarithm of the tail: the half-width falls as the tail grows, from infinity to 0.
    while high - low > _RESOLUTION:
        middle = (low + high) / 2
        low, high = (middle, high) if _half_width(sources, middle) > target else (low, middle)
    return min(1.0, 2 * math.exp(high))


SMALLEST = 1e-300
"""A smaller p-value is returned as this, never as 0."""
_RESOLUTION = 1e-12
"""Relative error of a p-value."""


def _half_width(sources: Sequence[Source], log_tail: float) -> float:
    dof = np.array([source.dof for source in sources])
    variances = np.array([source.variance for source in sources])
    floors = np.array([source.floor for source in sources])
    squares = np.square(scipy.special.stdtrit(dof, math.exp(log_tail)))
    # Never below 0: by chance, levels may differ less than their floor.
    added = np.maximum(squares * variances - squares[0] * floors, 0.0)
    return math.sqrt(float(added.sum()))
