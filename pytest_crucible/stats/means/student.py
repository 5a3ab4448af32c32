"""Student's t for one mean, of values or of paired differences.

Two independent arms are in `two_samples`, clustered values in `clustered`, bounds for gates in `gaffke`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    Range,
    Side,
    check_share,
    check_side,
    difference,
    is_constant,
    is_finite_range,
)
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.moments import check_enough, check_inside, standard_error, t_end
from pytest_crucible.stats.means.point_mass import bounded_point_mass_interval, distance, equal_differences_p_value
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import t_interval, t_p_value


def one_sample_t(
    values: npt.ArrayLike,
    *,
    mu: float = 0.0,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Return Student's t test of "the mean is mu"; R: t.test(values, mu=mu).

    For equal values the status is "degenerate": p is 1 at mu and the exact sign-flip p elsewhere (2^(1-n), two-sided);
    the interval is the point-mass one when `bounds` are finite, and None otherwise. Raises NotEnoughData below two
    values, ValueError when equal values lie outside the bounds.

    >>> result = one_sample_t([0.5, 0.75])
    >>> result.statistic, round(result.p_value, 6), round(result.interval.low, 4)
    (5.0, 0.125666, -0.9633)
    """
    return _test(check_enough(values), mu, "one-sample t", alternative, level, bounds)


def paired_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Return the paired t test of candidate - baseline; R: t.test(candidate, baseline, paired=TRUE).

    With one argument its values are the differences. `bounds` are those of the arguments: of the scores with two arms, of
    the differences with one. Equal differences: see `one_sample_t`. Raises ValueError for arms of unequal length and for
    two empty ones, NotEnoughData below two pairs.

    >>> result = paired_t([0.9, 0.7], [0.4, 0.5])
    >>> round(result.estimate, 4), round(result.p_value, 6)
    (0.35, 0.257762)
    """
    if baseline is None:
        return _test(check_enough(candidate), 0.0, "paired t", alternative, level, bounds)
    differences = paired_differences(candidate, baseline)
    return _test(check_enough(differences), 0.0, "paired t", alternative, level, bounds_of_difference(bounds))


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95, bounds: Range | None = None) -> Interval | None:
    """Return Student's t interval for a mean; R: t.test(values)$conf.int. Raises NotEnoughData below two values.

    Equal values: the point-mass interval within finite `bounds`, and None without them.

    >>> interval = mean_interval([0.5, 0.75])
    >>> round(interval.low, 4), round(interval.high, 4)
    (-0.9633, 2.2133)
    """
    return one_sample_t(values, level=level, bounds=bounds).interval


def t_bound(values: npt.ArrayLike, *, alpha: float, side: Side) -> float | None:
    """Return the one-sided t bound for unbounded values; R: t.test(values, alternative=..., conf.level=1-alpha).

    None when the values do not vary: without bounds, unobserved values could be anything.

    >>> round(t_bound([1.0, 2.0, 3.0, 4.0], alpha=0.05, side="lower"), 4)
    0.9809
    """
    check_share(alpha, "alpha")
    check_side(side)
    array = check_enough(values)
    if is_constant(array):
        return None
    return t_end(float(array.mean()), standard_error(array), array.size - 1, alpha=alpha, side=side)


def paired_differences(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Array:
    """Return candidate - baseline without rounding errors. Raises ValueError for unequal lengths and without pairs.

    >>> paired_differences([0.3, 0.5], [0.1 + 0.2, 0.25])
    array([0.  , 0.25])
    """
    differences = difference(candidate, baseline)
    if not differences.size:
        raise ValueError("a paired comparison needs pairs, not 0 of them")
    return differences


def bounds_of_difference(bounds: Range | None) -> Range | None:
    """Return the bounds of the difference of two scores in `bounds`.

    >>> bounds_of_difference((1.0, 5.0))
    (-4.0, 4.0)
    """
    return None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])


def _test(
    array: Array, mu: float, method: str, alternative: Alternative, level: float, bounds: Range | None
) -> Significance:
    check_share(level, "level")
    if not np.isfinite(mu):
        raise ValueError(f"mu must be a finite number, not {mu!r}")
    # Equal values would give a standard error of rounding size and an absurd t.
    if is_constant(array):
        return _equal(array, mu, method, alternative, level, bounds)
    mean, se, dof = float(array.mean()), standard_error(array), array.size - 1
    statistic = (mean - mu) / se
    return Significance(
        method=method,
        statistic=statistic,
        p_value=t_p_value(statistic, dof, alternative),
        dof=(float(dof),),
        estimate=mean,
        interval=t_interval(mean, se, dof, level=level, method="t", alternative=alternative),
        se=se,
        n=(array.size,),
    )


def _equal(
    array: Array, mu: float, method: str, alternative: Alternative, level: float, bounds: Range | None
) -> Significance:
    value, n = float(array[0]), array.size
    if bounds is not None and is_finite_range(bounds):
        check_inside(array, bounds)
    return Significance(
        method=method,
        statistic=None,
        p_value=equal_differences_p_value(distance(value, mu), n, alternative),
        estimate=value,
        interval=bounded_point_mass_interval(value, n, bounds=bounds, level=level, alternative=alternative),
        n=(n,),
        status="degenerate",
        note=f"all {n} values are equal: the p-value is the sign-flip one, the interval that of a point mass",
    )
