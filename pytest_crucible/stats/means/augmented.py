"""The t after adding one observation at each bound of the values.

The two pseudo-observations do for scores what Agresti & Coull (1998), Agresti & Caffo (2000) and Bonett & Price (2012)
do for proportions. At n=20, plain t passes a candidate with rare failures in 37 % of runs, and this one in none; with more
samples it errs in up to 9 % at a nominal 5 %, and so decides no gate: Gaffke's bound does (`gaffke`). Random factors are
counted with it (`stats.factors`), because no method by weights is known for them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Array, Range, Side, check_share, check_side, is_finite_range
from pytest_crucible.stats.means.moments import (
    check_enough,
    check_inside,
    standard_error,
    t_end,
)


def augmented_t_interval(values: npt.ArrayLike, *, bounds: Range, level: float = 0.95) -> Interval:
    """Return the t interval after adding one observation at each bound; R: t.test(c(values, bounds)).

    It has n + 1 degrees of freedom. Its ends may lie outside the bounds; report the mean of the values alone with it.

    >>> interval = augmented_t_interval([1.0] * 30, bounds=(0.0, 1.0))
    >>> round(interval.low, 6)
    0.905015
    """
    return _interval(augmented_moments(check_enough(values), bounds), level, "augmented t")


def augmented_t_bound(values: npt.ArrayLike, *, bounds: Range, alpha: float, side: Side) -> float:
    """Return the one-sided augmented t bound for the mean of bounded values.

    Raises ValueError when a bound is infinite, or when values lie outside the bounds.

    >>> round(augmented_t_bound([1.0] * 30, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 6)
    0.915765
    """
    check_share(alpha, "alpha")
    check_side(side)
    return t_end(*augmented_moments(check_enough(values), bounds), alpha=alpha, side=side)


def augmented_moments(array: Array, bounds: Range) -> tuple[float, float, float]:
    """Return mean, standard error and degrees of freedom with one pseudo-observation at each bound.

    >>> augmented_moments(np.array([0.5, 0.5]), (0.0, 1.0))[::2]
    (0.5, 3.0)
    """
    if not is_finite_range(bounds):
        raise ValueError(f"the augmented t needs finite bounds, not {bounds!r}")
    check_inside(array, bounds)
    # One pseudo-observation at each bound: Bonett & Price (2012) for proportions, here for any bounded score.
    longer = np.append(array, bounds)
    return float(longer.mean()), standard_error(longer), float(longer.size - 1)


def _interval(moments: tuple[float, float, float], level: float, method: str) -> Interval:
    check_share(level, "level")
    low, high = (t_end(*moments, alpha=(1 - level) / 2, side=side) for side in ("lower", "upper"))
    return Interval(low=low, high=high, level=level, method=method)
