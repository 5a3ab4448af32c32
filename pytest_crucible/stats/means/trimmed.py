"""Trimmed means, which a few extreme scores do not change.

They are for sensitivity analysis, never for a gate: the trimmed mean is another estimand than the mean.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.stats.arrays import Alternative, Array, check_share, is_constant
from pytest_crucible.stats.means.moments import check_enough, standard_deviation, two_arms, welch_se_and_dof
from pytest_crucible.stats.means.point_mass import distance, equal_differences_p_value
from pytest_crucible.stats.means.student import paired_differences
from pytest_crucible.stats.means.two_samples import without_variation
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import t_interval, t_p_value

_FLAT = "the winsorised values do not vary, so that trimmed means have no standard error"


def trimmed_mean(values: npt.ArrayLike, *, trim: float = 0.2) -> float:
    """Return the mean without the floor(trim * n) smallest and as many largest values.

    R: mean(values, trim=trim). Raises ValueError unless 0 <= trim < 0.5, and NotEnoughData without values.

    >>> trimmed_mean([1.0, 2.0, 3.0, 4.0, 100.0])
    3.0
    """
    return _middle(np.sort(check_enough(values, fewest=1)), _cut(trim))


def one_sample_trimmed_t(
    values: npt.ArrayLike,
    *,
    mu: float = 0.0,
    trim: float = 0.2,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Test "the trimmed mean is mu" by Tukey & McLaughlin (1963): t with h - 1 dof, h the number of values left.

    The standard error is sd(winsorised) / ((1 - 2 trim) sqrt(n)); R: WRS2/asbio trimci. With trim=0 the ordinary t.
    The status is "degenerate" when the winsorised values do not vary; then p is the exact sign-flip p if all values are
    equal and None otherwise. Raises NotEnoughData when fewer than two values are left.

    >>> result = one_sample_trimmed_t([1.0, 2.0, 3.0, 4.0, 100.0])
    >>> result.estimate, round(result.se, 4), result.dof
    (3.0, 0.7454, (2.0,))
    """
    return _test(check_enough(values), mu, "one-sample trimmed t", trim, alternative, level)


def paired_trimmed_t(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike | None = None,
    *,
    trim: float = 0.2,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Test the trimmed mean of candidate - baseline. With one argument its values are the differences.

    It is the `one_sample_trimmed_t` of the differences: trimming keeps or drops whole pairs. Raises ValueError for arms
    of unequal length.

    >>> paired_trimmed_t([0.5, 0.7, 0.9, 0.4, 1.0], [0.4, 0.5, 0.6, 0.4, 0.0]).n
    (5,)
    """
    differences = candidate if baseline is None else paired_differences(candidate, baseline)
    return _test(check_enough(differences), 0.0, "paired trimmed t", trim, alternative, level)


def yuen_welch(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    trim: float = 0.2,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return the Yuen-Welch test of two independent trimmed means (Yuen 1974); scipy: ttest_ind(trim=trim).

    With trim=0 it is Welch's t. The status is "degenerate" when the winsorised values vary in neither arm; then p is
    the exact permutation p if both arms are constant and None otherwise. Raises NotEnoughData when fewer than two
    values of an arm are left.

    >>> result = yuen_welch([1.0, 2.0, 3.0, 4.0, 90.0], [0.0, 1.0, 1.5, 2.0, 2.5])
    >>> round(result.estimate, 4), round(result.p_value, 4)
    (1.5, 0.2007)
    """
    check_share(level, "level")
    first, second = two_arms(candidate, baseline)
    if is_constant(first) and is_constant(second):
        return without_variation("yuen-welch", (first, second), alternative)
    ordered = np.sort(first), np.sort(second)
    errors = _yuen_error(ordered[0], _cut(trim)), _yuen_error(ordered[1], _cut(trim))
    estimate, n = _middle(ordered[0], trim) - _middle(ordered[1], trim), (first.size, second.size)
    if errors[0][0] == errors[1][0] == 0:
        return _flat("yuen-welch", estimate, n)
    se, dof = welch_se_and_dof(*errors)
    return _record("yuen-welch", estimate, 0.0, se, dof, n, alternative, level)


def _test(array: Array, mu: float, method: str, trim: float, alternative: Alternative, level: float) -> Significance:
    check_share(level, "level")
    ordered, n = np.sort(array), array.size
    # Tukey & McLaughlin (1963): winsorised deviation, degrees of freedom from the values that are left.
    left, estimate = _left(n, _cut(trim)), _middle(ordered, trim)
    deviation = _deviation(_winsorise(ordered, trim))
    if deviation == 0:
        p_value = equal_differences_p_value(distance(estimate, mu), n, alternative) if is_constant(array) else None
        return _flat(method, estimate, (n,), p_value)
    se = deviation / ((1 - 2 * trim) * math.sqrt(n))
    return _record(method, estimate, mu, se, left - 1, (n,), alternative, level)


def _record(
    method: str,
    estimate: float,
    mu: float,
    se: float,
    dof: float,
    n: tuple[int, ...],
    alternative: Alternative,
    level: float,
) -> Significance:
    statistic = (estimate - mu) / se
    return Significance(
        method=method,
        statistic=statistic,
        p_value=t_p_value(statistic, dof, alternative),
        dof=(float(dof),),
        estimate=estimate,
        interval=t_interval(estimate, se, dof, level=level, method=method, alternative=alternative),
        se=se,
        n=n,
    )


def _flat(method: str, estimate: float, n: tuple[int, ...], p_value: float | None = None) -> Significance:
    return Significance(
        method=method, statistic=None, p_value=p_value, estimate=estimate, n=n, status="degenerate", note=_FLAT
    )


def _cut(trim: float) -> float:
    if not 0 <= trim < 0.5:
        raise ValueError(f"trim must be at least 0 and below 0.5, not {trim!r}")
    return trim


def _tail(n: int, trim: float) -> int:
    # As R and scipy do, also where 0.29 * 100 is 28.999999999999996.
    return math.floor(trim * n)


def _left(n: int, trim: float) -> int:
    left = n - 2 * _tail(n, trim)
    if left < 2:
        raise NotEnoughData(f"{left} of {n} values left after trimming: a trimmed mean's uncertainty needs 2")
    return left


def _middle(ordered: Array, trim: float) -> float:
    tail = _tail(ordered.size, trim)
    return float(ordered[tail : ordered.size - tail].mean())


def _winsorise(ordered: Array, trim: float) -> Array:
    tail = _tail(ordered.size, trim)
    return np.clip(ordered, ordered[tail], ordered[ordered.size - tail - 1])


def _deviation(winsorised: Array) -> float:
    return 0.0 if is_constant(winsorised) else standard_deviation(winsorised)


def _yuen_error(ordered: Array, trim: float) -> tuple[float, float]:
    """Return Yuen's standard error of a trimmed mean, and its degrees of freedom."""
    n, left = ordered.size, _left(ordered.size, trim)
    # Yuen (1974): the winsorised sum of squares (n - 1) s_w^2 over h (h - 1).
    return _deviation(_winsorise(ordered, trim)) * math.sqrt((n - 1) / (left * (left - 1))), float(left - 1)
