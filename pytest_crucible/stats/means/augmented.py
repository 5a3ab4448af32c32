"""Bounds for gates on bounded scores: t after adding the worst and the best that was not seen.

The two pseudo-observations, one at each bound, do for scores what Agresti & Coull (1998), Agresti & Caffo (2000) and
Bonett & Price (2012) do for proportions. Plain t lets a candidate with rare disasters pass in 37 % of runs at n=20.
With independent arms near 0.9, of which one falls to 0 so rarely that it is worse by just the margin of 5 pp, Welch
lets it pass in 32, 15 and 9 % of runs at n=20, 50 and 200, the augmented Welch in 0, 5 and 7 % (20 000 runs each).
For paired differences the bounds are those of a difference, (low - high, high - low).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Interval
from pytest_crucible.stats.means.moments import check_inside, enough, standard_error, t_end, two_arms, welch_se_and_dof
from pytest_crucible.stats.observations import Array, Range, Side, check_share, check_side, is_finite_range


def augmented_t_interval(values: npt.ArrayLike, *, bounds: Range, level: float = 0.95) -> Interval:
    """t interval after adding one observation at each bound (n + 1 degrees of freedom); R: t.test(c(values, bounds)).

    Its ends may lie outside the bounds; the estimate to report remains the mean of the values alone.

    >>> interval = augmented_t_interval([1.0] * 30, bounds=(0.0, 1.0))
    >>> round(interval.low, 6)
    0.905015
    """
    return _interval(augmented_moments(enough(values), bounds), level, "augmented t")


def augmented_t_bound(values: npt.ArrayLike, *, bounds: Range, alpha: float, side: Side) -> float:
    """One-sided augmented t bound for the mean of bounded values.

    Raises ValueError when a bound is infinite, or when values lie outside the bounds.

    The bound for gates: with rare disasters at n=20 it errs in no run where plain t errs in 37 %.

    >>> round(augmented_t_bound([1.0] * 30, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 6)
    0.915765
    """
    check_share(alpha, "alpha")
    check_side(side)
    return t_end(*augmented_moments(enough(values), bounds), alpha=alpha, side=side)


def augmented_welch_interval(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, bounds: Range, level: float = 0.95
) -> Interval:
    """Welch interval for candidate - baseline after adding one observation at each bound to each of two arms.

    R: t.test(c(candidate, bounds), c(baseline, bounds)). For independent arms; `bounds` are those of the scores.

    >>> interval = augmented_welch_interval([1.0] * 30, [1.0] * 30, bounds=(0.0, 1.0))
    >>> round(interval.low, 6), round(interval.high, 6)
    (-0.088343, 0.088343)
    """
    return _interval(augmented_welch_moments(*two_arms(candidate, baseline), bounds), level, "augmented welch")


def augmented_welch_bound(
    candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, bounds: Range, alpha: float, side: Side
) -> float:
    """One-sided augmented Welch bound for candidate - baseline of two independent arms.

    >>> round(augmented_welch_bound([1.0] * 30, [1.0] * 30, bounds=(0.0, 1.0), alpha=0.05, side="lower"), 6)
    -0.073796
    """
    check_share(alpha, "alpha")
    check_side(side)
    return t_end(*augmented_welch_moments(*two_arms(candidate, baseline), bounds), alpha=alpha, side=side)


def augmented_moments(array: Array, bounds: Range) -> tuple[float, float, float]:
    """Mean, standard error and degrees of freedom with one pseudo-observation at each bound.

    >>> augmented_moments(np.array([0.5, 0.5]), (0.0, 1.0))[::2]
    (0.5, 3.0)
    """
    if not is_finite_range(bounds):
        raise ValueError(f"the augmented t needs finite bounds, not {bounds!r}")
    check_inside(array, bounds)
    longer = np.append(array, bounds)
    return float(longer.mean()), standard_error(longer), float(longer.size - 1)


def augmented_welch_moments(first: Array, second: Array, bounds: Range) -> tuple[float, float, float]:
    """Difference of means, standard error and Welch's dof with one pseudo-observation at each bound of each arm.

    >>> augmented_welch_moments(np.array([1.0, 1.0]), np.array([0.0, 0.0]), (0.0, 1.0))[0]
    0.5
    """
    one, other = augmented_moments(first, bounds), augmented_moments(second, bounds)
    se, dof = welch_se_and_dof(one[1:], other[1:])
    return one[0] - other[0], se, dof


def _interval(moments: tuple[float, float, float], level: float, method: str) -> Interval:
    check_share(level, "level")
    low, high = (t_end(*moments, alpha=(1 - level) / 2, side=side) for side in ("lower", "upper"))
    return Interval(low=low, high=high, level=level, method=method)
