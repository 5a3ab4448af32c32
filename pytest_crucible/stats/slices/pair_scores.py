"""Bounds of many pairs of proportions at once: score bounds, exact ones, and melded ones of small slices.

Score bounds of differences and ratios are those of `proportions.score`, on arrays: a target over 60 slices has 1,770 pairs. A score
bound takes a slice of ten right answers for more than it shows: at a true rate of .8 that happens in 11 % of runs, and a gap of .2
would then be "proven" absent. Bounds melded from Clopper and Pearson's distributions (Fay, Proschan & Brittain 2015, Biometrics
71:146) do not err that way. The exact lower bound of a ratio has outcomes in the order of the score limits, and the second arm's
rate as nuisance, as `proportions.exact`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv, ndtri

from pytest_crucible.stats.arrays import Array
from pytest_crucible.stats.proportions.exact import TIED, Region, least_counts, lower_bound, outer_counts
from pytest_crucible.stats.proportions.score import difference_statistics, standardise


@lru_cache(maxsize=4096)
def exact_lower_ratio(x1: int, n1: int, x2: int, n2: int, alpha: float) -> float:
    """Return the lower bound of (x1 / n1) / (x2 / n2). It errs in at most a share alpha of experiments, which is below 0.5.

    0 without successes in the first arm. Source: Buehler 1957, JASA 52:482.
    """
    if not x1:
        return 0.0
    z = -float(ndtri(alpha))
    above, of_first, below, of_second = (np.array([float(count)]) for count in (x1, n1, x2, n2))
    limit = float(ratio_bounds(above, of_first, below, of_second, z, upper=False)[0])
    first, second = x1 / n1, x2 / n2
    bound = lower_bound(
        _region(n1, x2, n2, limit, z), (first - second) / (first + second), (limit - 1) / (limit + 1), alpha
    )
    return _ratio(bound)


def _region(n1: int, x2: int, n2: int, limit: float, z: float) -> Region:
    """Return the outcomes whose statistic at this ratio is z or more."""
    seconds = outer_counts(x2, n2)
    sizes, of_second, ratios = (np.full(seconds.shape, float(value)) for value in (n1, n2, limit))

    def reaches(firsts: Array) -> npt.NDArray[np.bool_]:
        return np.asarray(ratio_statistic(firsts, sizes, seconds, of_second, ratios) >= z - TIED)

    return Region(
        n=n2,
        observed=x2,
        counts=seconds,
        sizes=sizes,
        least=least_counts(sizes, reaches),
        range_of=lambda contrast: (0.0, min(1.0, (1 - contrast) / (1 + contrast)) if contrast > -1 else 1.0),
        rates_of=lambda contrast, rates: np.clip(rates * _ratio(contrast), 0.0, 1.0),
    )


def _ratio(contrast: float) -> float:
    """Return the ratio that (ratio - 1) / (ratio + 1) is of: like a difference, it lies between -1 and 1."""
    return (1 + contrast) / (1 - contrast)


# Nodes of Gauss and Legendre's rule over the quantiles of one rate: 64 give five digits.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# A quadrature has five digits, and 2^-26 is below them.
_HALVINGS = 26
_QUANTILES, _SHARES = (_NODES + 1) / 2, _WEIGHTS / 2


def melded_upper(x1: Array, n1: Array, x2: Array, n2: Array, alpha: float) -> Array:
    """Return the upper bound of each x1 / n1 - x2 / n2 at a one-sided alpha."""
    highest = _upper_quantiles(x1, n1)

    def beyond(difference: Array) -> Array:
        # Without a right answer the second rate's lower bound is 0 for certain, and a quadrature would cross a step.
        certain = 1 - _upper_cdf(x1, n1, difference[:, None])[:, 0]
        return np.where(x2 > 0, _mean(_lower_cdf(x2, n2, highest - difference[:, None])), certain)

    return bisect(beyond, alpha, -np.ones_like(x1), np.ones_like(x1), _HALVINGS)


def melded_lower_ratio(x1: Array, n1: Array, x2: Array, n2: Array, alpha: float) -> Array:
    """Return the lower bound of each (x1 / n1) / (x2 / n2) at a one-sided alpha."""
    highest = _upper_quantiles(x2, n2)

    def above(share: Array) -> Array:
        ratio = share / (1 - share)
        return 1 - _mean(_lower_cdf(x1, n1, ratio[:, None] * highest))

    share = bisect(above, 1 - alpha, np.zeros_like(x1), np.full_like(x1, 1 - 1e-12), _HALVINGS)
    return share / (1 - share)


def _mean(values: Array) -> Array:
    return np.asarray(values @ _SHARES)


def _upper_quantiles(x: Array, n: Array) -> Array:
    """Return pairs x nodes quantiles of the upper confidence distribution, Beta(x + 1, n - x); 1 where all are right."""
    quantiles = betaincinv((x + 1)[:, None], np.maximum(n - x, 1.0)[:, None], _QUANTILES)
    return np.where((x < n)[:, None], quantiles, 1.0)


def _upper_cdf(x: Array, n: Array, at: Array) -> Array:
    inside = betainc((x + 1)[:, None], np.maximum(n - x, 1.0)[:, None], np.clip(at, 0.0, 1.0))
    return np.where((x < n)[:, None], inside, at >= 1.0)


def _lower_cdf(x: Array, n: Array, at: Array) -> Array:
    inside = betainc(np.maximum(x, 1.0)[:, None], (n - x + 1)[:, None], np.clip(at, 0.0, 1.0))
    return np.where((x > 0)[:, None], inside, at >= 0.0)


# Halvings of [-1, 1], and of the shares of ratios in [0, 1]: 2^-48 is far below any digit that is shown.
HALVINGS = 48
# A ratio of 0 has no constrained rates.
_SMALLEST_SHARE = 1e-12

Statistic = Callable[[Array], Array]
"""The z of every pair at a parameter of its own; it falls as the parameter rises."""


def difference_bounds(x1: Array, n1: Array, x2: Array, n2: Array, z: float, *, upper: bool) -> Array:
    """Return one bound of each x1 / n1 - x2 / n2: the difference at which the score statistic passes z.

    >>> arms = [np.array([float(count)]) for count in (5, 56, 0, 29)]
    >>> difference_bounds(*arms, 1.959963984540054, upper=True).round(5)
    array([0.18672])
    """
    if not upper:
        # Swapping the arms negates the interval.
        return -difference_bounds(x2, n2, x1, n1, z, upper=True)
    return bisect(lambda at: difference_statistics(x1, n1, x2, n2, at), -z, x1 / n1 - x2 / n2, np.ones_like(x1))


def ratio_bounds(x1: Array, n1: Array, x2: Array, n2: Array, z: float, *, upper: bool) -> Array:
    """Return one bound of each (x1 / n1) / (x2 / n2); 0 or infinite if the counts exclude no ratio on that side.

    >>> arms = [np.array([float(count)]) for count in (5, 56, 0, 29)]
    >>> ratio_bounds(*arms, 1.959963984540054, upper=False).round(4)
    array([0.7696])
    """
    if upper:
        # Swapping the arms inverts the interval.
        with np.errstate(divide="ignore"):
            return np.asarray(1 / ratio_bounds(x2, n2, x1, n1, z, upper=False))
    above, below = x1 / n1, x2 / n2
    total = above + below
    share = np.divide(above, total, out=np.zeros_like(total), where=total > 0)

    def statistic(at: Array) -> Array:
        return ratio_statistic(x1, n1, x2, n2, at / (1 - at))

    ends = bisect(statistic, z, np.full_like(share, _SMALLEST_SHARE), np.minimum(share, 1 - _SMALLEST_SHARE))
    excludes = (share > 0) & (statistic(np.full_like(share, _SMALLEST_SHARE)) > z)
    return np.where(excludes, ends / (1 - ends), 0.0)


def bisect(statistic: Statistic, level: float | Array, low: Array, high: Array, halvings: int = HALVINGS) -> Array:
    """Return where each falling statistic passes a level between two ends.

    >>> bisect(lambda x: 4 - x * x, 0.0, np.zeros(1), np.full(1, 5.0)).round(9)
    array([2.])
    """
    low, high = low.copy(), high.copy()
    for _ in range(halvings):
        middle = (low + high) / 2
        is_above = statistic(middle) > level
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    return high


def ratio_statistic(x1: Array, n1: Array, x2: Array, n2: Array, ratio: Array) -> Array:
    """Return the score z for "the true ratio is `ratio`" of each pair (Miettinen & Nurminen 1985, equation 10).

    >>> ratio_statistic(*[np.array([float(count)]) for count in (30, 50, 15, 50)], np.array([1.0])).round(3)
    array([3.])
    """
    linear = (n1 + x2) * ratio + n2 + x1
    root = np.sqrt(np.maximum(linear * linear - 4 * (n1 + n2) * ratio * (x1 + x2), 0.0))
    second = 2 * (x1 + x2) / (linear + root)
    first = np.minimum(second * ratio, 1.0)
    spread1, spread2 = first * (1 - first) / n1, ratio * ratio * second * (1 - second) / n2
    third = spread1 * (1 - 2 * first) / n1 - spread2 * ratio * (1 - 2 * second) / n2
    n = n1 + n2
    return standardise(x1 / n1 - ratio * x2 / n2, (spread1 + spread2) * n / (n - 1), third)
