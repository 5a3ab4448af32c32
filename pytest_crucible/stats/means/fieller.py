"""The interval of a ratio of two means on the same units: the ratios r for which the mean of x - r y does not differ from 0.

Fieller (1954), JRSS B 16:175, compares it with 0 by Student's t. Where x - r y is skewed, as money is that failures
waste, fewer of his intervals have the true ratio than they should: Hall (1992), JRSS B 54:221, corrects t by a cubic polynomial.
With clusters, x and y are the totals of a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import Array, Labels, paired_arrays
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.planning.roots import bracketed_root

METHOD = "Fieller, corrected for skewness"
# Below this share of the ratio an end is as good as found: reports show three digits.
_EXACT = 1e-9
# Ratios so many times the estimate are not excluded any more.
_FARTHEST = 1e9


def fieller_interval(
    numerator: npt.ArrayLike,
    denominator: npt.ArrayLike,
    *,
    level: float = 0.95,
    clusters: Labels | None = None,
    skewed: bool = True,
) -> Interval:
    """Return the interval of mean(numerator) / mean(denominator), of values of at least 0, shape (n,).

    Its upper end is infinite where the denominator's mean is not proven to be above 0. Without `skewed` it is Fieller's own. Raises
    ValueError for arrays of unequal length, NotEnoughData below three units and for a denominator that is 0 everywhere.

    >>> interval = fieller_interval([4, 5, 6, 5, 3, 4, 5], [1, 0, 1, 1, 1, 1, 0], skewed=False)
    >>> round(interval.low, 3), round(interval.high, 3)
    (3.527, 18.573)
    """
    from scipy.special import stdtrit

    first, second = paired_arrays(numerator, denominator, names=("numerator", "denominator"))
    if clusters is not None:
        codes = np.unique(np.asarray(clusters), return_inverse=True)[1]
        first, second = (np.asarray(np.bincount(codes, weights=values), dtype=np.float64) for values in (first, second))
    if first.size < 3 or not second.any():
        raise NotEnoughData("a ratio needs three units, and a denominator that is not 0 in all of them")
    limit = float(stdtrit(first.size - 1, (1 + level) / 2))
    statistic = _corrected_t if skewed else _student_t
    low, high = _find_ends(lambda ratio: statistic(first - ratio * second), float(first.sum() / second.sum()), limit)
    return Interval(low=low, high=high, level=level, method=METHOD if skewed else "Fieller")


def _student_t(values: Array) -> float:
    """Return the mean in its standard errors."""
    mean, deviation = float(values.mean()), float(values.std(ddof=1))
    if not deviation:
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / deviation * math.sqrt(values.size)


def _corrected_t(values: Array) -> float:
    """Return Student's t, less what the skewness of the values adds to it. It rises with t at any skewness."""
    n, t = values.size, _student_t(values)
    if not math.isfinite(t) or not t:
        return t
    centred = values - values.mean()
    skewness = float(np.sum(centred**3)) * n / ((n - 1) * (n - 2)) / float(values.std(ddof=1)) ** 3
    unit = t / math.sqrt(n)
    return math.sqrt(n) * (unit + skewness * unit**2 / 3 + skewness**2 * unit**3 / 27 + skewness / (6 * n))


def _find_ends(statistic: Callable[[float], float], ratio: float, limit: float) -> tuple[float, float]:
    """Return the ratios at which the statistic, which falls with the ratio, is the limit, and its negative."""
    if not ratio:
        return 0.0, _find_upper(statistic, 1.0, limit)
    at_zero, at_ratio = statistic(0.0) - limit, statistic(ratio) - limit
    scale = _EXACT * ratio
    low = 0.0
    if at_zero > 0 > at_ratio:
        low = bracketed_root(lambda r: statistic(r) - limit, 0.0, min(at_zero, 1e9), ratio, at_ratio, error=scale)
    return low, _find_upper(statistic, ratio, limit)


def _find_upper(statistic: Callable[[float], float], ratio: float, limit: float) -> float:
    near, far = ratio, 1.5 * ratio
    while statistic(far) > -limit:
        near, far = far, 2 * far
        if far > _FARTHEST * ratio:
            return math.inf
    ends = [max(statistic(end) + limit, -1e9) for end in (near, far)]
    if ends[0] <= 0:
        return near
    return bracketed_root(lambda r: statistic(r) + limit, near, ends[0], far, ends[1], error=_EXACT * ratio)
