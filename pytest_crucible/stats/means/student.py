"""Student's t for one mean: of values, and of paired differences.

Two independent arms are in `two_samples`, clustered values in `clustered`, bounds for gates in `augmented`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.means.moments import check_inside, enough, standard_error, t_end
from pytest_crucible.stats.means.point_mass import distance, equal_differences_p_value, known_interval
from pytest_crucible.stats.observations import (
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
from pytest_crucible.stats.tails import t_interval, t_p_value


def one_sample_t(
    values: npt.ArrayLike,
    *,
    mu: float = 0.0,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Student's t test of "the mean is mu"; R: t.test(values, mu=mu).

    Equal values have no standard error to speak of: then the status is "degenerate", p is 1 at mu and the exact
    sign-flip p elsewhere (2^(1-n), two-sided), and the interval is the point-mass one when the values are known to lie
    in finite `bounds`, None otherwise. Raises NotEnoughData below two values, ValueError when equal values lie outside
    the bounds.

    >>> result = one_sample_t([0.5, 0.75])
    >>> result.statistic, round(result.p_value, 6), round(result.interval.low, 4)
    (5.0, 0.125666, -0.9633)
    """
    return _test(enough(values), mu, "one-sample t", alternative, level, bounds)


def paired_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
    bounds: Range | None = None,
) -> Significance:
    """Paired t test of candidate - baseline; R: t.test(candidate, baseline, paired=TRUE).

    With one argument its values are the differences. `bounds` are those of what is given: of the scores with two arms,
    of the differences with one. Equal differences: see `one_sample_t`. Raises ValueError for arms of unequal length
    and for two empty ones, NotEnoughData below two pairs.

    >>> result = paired_t([0.9, 0.7], [0.4, 0.5])
    >>> round(result.estimate, 4), round(result.p_value, 6)
    (0.35, 0.257762)
    """
    if baseline is None:
        return _test(enough(candidate), 0.0, "paired t", alternative, level, bounds)
    differences = pairs(candidate, baseline)
    return _test(enough(differences), 0.0, "paired t", alternative, level, difference_bounds(bounds))


def mean_interval(values: npt.ArrayLike, *, level: float = 0.95, bounds: Range | None = None) -> Interval | None:
    """Student's t interval for a mean; R: t.test(values)$conf.int. Raises NotEnoughData below two values.

    Equal values: the point-mass interval within finite `bounds`, and None without them.

    >>> interval = mean_interval([0.5, 0.75])
    >>> round(interval.low, 4), round(interval.high, 4)
    (-0.9633, 2.2133)
    """
    return one_sample_t(values, level=level, bounds=bounds).interval


def t_bound(values: npt.ArrayLike, *, alpha: float, side: Side) -> float | None:
    """One-sided t bound for the mean of unbounded values; R: t.test(values, alternative=..., conf.level=1-alpha).

    None when the values do not vary: without bounds they say nothing about what was not seen.

    >>> round(t_bound([1.0, 2.0, 3.0, 4.0], alpha=0.05, side="lower"), 4)
    0.9809
    """
    check_share(alpha, "alpha")
    check_side(side)
    array = enough(values)
    if is_constant(array):
        return None
    return t_end(float(array.mean()), standard_error(array), array.size - 1, alpha=alpha, side=side)


def pairs(candidate: npt.ArrayLike, baseline: npt.ArrayLike) -> Array:
    """Candidate - baseline without rounding noise. Raises ValueError for unequal lengths and for no pairs at all.

    >>> pairs([0.3, 0.5], [0.1 + 0.2, 0.25])
    array([0.  , 0.25])
    """
    differences = difference(candidate, baseline)
    if not differences.size:
        raise ValueError("a paired comparison needs pairs, not 0 of them")
    return differences


def difference_bounds(bounds: Range | None) -> Range | None:
    """The bounds of a difference of two scores that lie in `bounds`.

    >>> difference_bounds((1.0, 5.0))
    (-4.0, 4.0)
    """
    return None if bounds is None else (bounds[0] - bounds[1], bounds[1] - bounds[0])


def _test(
    array: Array, mu: float, method: str, alternative: Alternative, level: float, bounds: Range | None
) -> Significance:
    check_share(level, "level")
    if not np.isfinite(mu):
        raise ValueError(f"mu must be a finite number, not {mu!r}")
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
        interval=known_interval(value, n, bounds=bounds, level=level, alternative=alternative),
        n=(n,),
        status="degenerate",
        note=f"all {n} values are equal: the p-value is the sign-flip one, the interval that of a point mass",
    )
