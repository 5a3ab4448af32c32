"""The exact lower bound of a ratio of two independent proportions, as `proportions.two_exact` has it of their difference.

Outcomes are in the order of the score limits, and the second arm's rate is the nuisance of `proportions.unconditional`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from pytest_crucible.stats.arrays import Array, Range
from pytest_crucible.stats.proportions.exact import TIED, Region, least_counts, lower_bound, outer_counts
from pytest_crucible.stats.slices.pair_scores import ratio_bounds, ratio_statistic


@lru_cache(maxsize=4096)
def exact_lower_ratio(x1: int, n1: int, x2: int, n2: int, alpha: float) -> float:
    """Return the lower bound of (x1 / n1) / (x2 / n2). It errs in at most a share alpha of experiments, which is below 0.5.

    0 without successes in the first arm. Source: Buehler 1957, JASA 52:482.

    >>> round(exact_lower_ratio(25, 50, 59, 92, 0.05), 4)
    0.5835
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
        range_of=_second_rates,
        rates_of=_first_rates,
    )


def _ratio(contrast: float) -> float:
    """Return the ratio that (ratio - 1) / (ratio + 1) is of: like a difference, it lies between -1 and 1."""
    return (1 + contrast) / (1 - contrast)


def _second_rates(contrast: float) -> Range:
    return 0.0, min(1.0, (1 - contrast) / (1 + contrast)) if contrast > -1 else 1.0


def _first_rates(contrast: float, rates: Array) -> Array:
    return np.clip(rates * _ratio(contrast), 0.0, 1.0)
