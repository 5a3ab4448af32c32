"""Linear correlations: Pearson's, partial, and the difference of two.

scipy.stats.pearsonr is not used: it loses the digits of small p-values, because it evaluates 1 - |r|.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from pytest_crucible.records import Interval
from pytest_crucible.records.errors import NotEnoughData
from pytest_crucible.records.number_format import quantity
from pytest_crucible.stats.arrays import (
    Alternative,
    Array,
    check_alternative,
    check_share,
    finite,
    is_constant,
    paired_arrays,
)
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import normal_interval, normal_p_value, t_p_value

_PERFECT = 16 * float(np.finfo(np.float64).eps)
"""A correlation this close to 1 differs from it by rounding alone."""


def pearson(
    x: npt.ArrayLike, y: npt.ArrayLike, *, alternative: Alternative = "two-sided", level: float = 0.95
) -> Significance:
    """Return Pearson's correlation with its t test and Fisher's z interval; R: cor.test(x, y).

    The interval is [-1, 1] at n = 3, where Fisher's standard error is infinite. With a constant variable the correlation
    is None and the status degenerate. A perfect correlation has no interval, and p is the permutation one: 1 / n!,
    two-sided 2 / n!. Raises NotEnoughData below three pairs.

    >>> result = pearson([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(result.estimate, 4), round(result.p_value, 4), round(result.interval.low, 4), round(result.interval.high, 4)
    (0.8, 0.1041, -0.2796, 0.9862)
    """
    first, second = correlated_pairs(x, y, level, alternative)
    if is_constant(first) or is_constant(second):
        return constant_result("pearson", first.size)
    r = _correlation(first, second)
    if is_perfect(r):
        return perfect_result("pearson", r, np.unique(first, return_counts=True)[1], alternative)
    return _t_result("pearson", r, first.size, first.size - 2, alternative, level)


def partial_correlation(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    given: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return the correlation of x and y after a linear regression of both on `given`; R: ppcor::pcor.test.

    `given` is one variable of n values, or an n x k matrix of k variables. t with n - 2 - k degrees of freedom, Fisher's
    interval with 1 / sqrt(n - 3 - k). Degenerate when `given` explains all of x or y. Raises NotEnoughData below k + 3.

    >>> result = partial_correlation([1, 2, 3, 4, 5, 7], [2, 1, 4, 3, 5, 9], [1, 1, 2, 2, 3, 3])
    >>> round(result.estimate, 4), result.dof, round(result.p_value, 4)
    (0.5927, (3.0,), 0.2922)
    """
    first, second = correlated_pairs(x, y, level, alternative)
    n = first.size
    matrix = np.asarray(given, dtype=np.float64)
    if matrix.ndim not in (1, 2) or len(matrix) != n:
        raise ValueError(f"given needs {n} rows, one for each pair, not the shape {matrix.shape}")
    finite(matrix.ravel(), name="given values")
    left, removed = _residuals(np.column_stack((first, second)), matrix.reshape(n, -1))
    dof = n - 2 - removed
    if dof < 1:
        raise NotEnoughData(f"{n} pairs less {removed} variables: a partial correlation needs {removed + 3} pairs")
    if not left.any(axis=0).all():
        return constant_result("partial", n)
    r = _correlation(left[:, 0], left[:, 1])
    if is_perfect(r):
        return Significance(
            method="partial",
            statistic=None,
            p_value=None,
            estimate=r,
            n=(n,),
            status="degenerate",
            note="a perfect partial correlation has neither a standard error nor a t",
        )
    return _t_result("partial", r, n, dof, alternative, level)


def cohens_q(
    first: float,
    first_n: int,
    second: float,
    second_n: int,
    *,
    alternative: Alternative = "two-sided",
    level: float = 0.95,
) -> Significance:
    """Return Cohen's q = atanh(first) - atanh(second), the difference of two independent correlations.

    z test and interval with standard error sqrt(1 / (n1 - 3) + 1 / (n2 - 3)); R: psych::r.test, cocor. Raises ValueError
    unless both lie strictly between -1 and 1, NotEnoughData below four pairs in a sample.

    >>> result = cohens_q(0.6, 50, 0.3, 60)
    >>> round(result.estimate, 4), round(result.p_value, 4)
    (0.3836, 0.0515)
    """
    check_alternative(alternative)
    if not (-1 < first < 1 and -1 < second < 1):
        raise ValueError(f"correlations must lie strictly between -1 and 1, not {first!r} and {second!r}")
    if min(first_n, second_n) < 4:
        raise NotEnoughData(f"{first_n} and {second_n} pairs: comparing correlations needs at least 4 in each sample")
    q, se = math.atanh(first) - math.atanh(second), math.sqrt(1 / (first_n - 3) + 1 / (second_n - 3))
    return Significance(
        method="cohens q",
        statistic=q / se,
        p_value=normal_p_value(q / se, alternative),
        estimate=q,
        interval=normal_interval(q, se, level=level, method="fisher", alternative=alternative),
        se=se,
        n=(first_n, second_n),
    )


def fisher_interval(
    r: float, se: float, *, level: float, method: str, alternative: Alternative = "two-sided"
) -> Interval | None:
    """Return tanh(atanh(r) -+ z * se): [-1, 1] when se is infinite, None when |r| is 1; one-sided ends are -1 and 1.

    >>> interval = fisher_interval(0.5, 0.2, level=0.95, method="fisher")
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.156, 0.7358)
    """
    check_share(level, "level")
    if is_perfect(r):
        return None
    around = normal_interval(math.atanh(r), se, level=level, method=method, alternative=alternative)
    return Interval(low=math.tanh(around.low), high=math.tanh(around.high), level=level, method=method)


def correlated_pairs(x: npt.ArrayLike, y: npt.ArrayLike, level: float, alternative: Alternative) -> tuple[Array, Array]:
    """Return both variables as arrays. Raises ValueError for NaN and unequal lengths, NotEnoughData below three pairs."""
    check_share(level, "level")
    check_alternative(alternative)
    first, second = paired_arrays(x, y, names=("x", "y"))
    if first.size < 3:
        raise NotEnoughData(f"{quantity(first.size, 'pair')}: a correlation needs at least 3")
    return first, second


def is_perfect(r: float) -> bool:
    """Return True when r is 1 or -1 within rounding."""
    return 1 - abs(r) <= _PERFECT


def t_statistic(r: float, dof: int) -> float:
    """Return the t statistic r sqrt(dof / (1 - r^2)) of a correlation that is not perfect."""
    return r * math.sqrt(dof / ((1 - r) * (1 + r)))


def constant_result(method: str, n: int) -> Significance:
    """Return the result for a constant variable: no correlation and no p-value."""
    note = "a variable is constant: the correlation is undefined"
    return Significance(method=method, statistic=None, p_value=None, n=(n,), status="degenerate", note=note)


def perfect_result(
    method: str, r: float, sizes: npt.NDArray[np.int64] | npt.NDArray[np.intp], alternative: Alternative
) -> Significance:
    """Return the result for a perfect correlation: the p-value counts the orders that give it. `sizes` are of ties."""
    sign = 1 if r > 0 else -1
    # The share of n! orders that look like a perfect one: orders inside ties cannot be told apart.
    share = math.exp(float(gammaln(sizes + 1.0).sum() - gammaln(sizes.sum() + 1.0)))
    agrees = alternative == "two-sided" or (alternative == "greater") == (sign > 0)
    p_value = min(1.0, share * (2 if alternative == "two-sided" else 1)) if agrees else 1.0
    note = "a perfect correlation has no standard error: p is the permutation one, without an interval"
    return Significance(
        method=method, statistic=None, p_value=p_value, estimate=float(sign), n=(int(sizes.sum()),),
        status="degenerate", note=note,
    )  # fmt: skip


def _t_result(method: str, r: float, n: int, dof: int, alternative: Alternative, level: float) -> Significance:
    statistic = t_statistic(r, dof)
    se = 1 / math.sqrt(dof - 1) if dof > 1 else math.inf
    return Significance(
        method=method,
        statistic=statistic,
        p_value=t_p_value(statistic, dof, alternative),
        dof=(float(dof),),
        estimate=r,
        interval=fisher_interval(r, se, level=level, method="fisher", alternative=alternative),
        n=(n,),
    )


def _correlation(first: Array, second: Array) -> float:
    """Return Pearson's r of two variables that vary."""
    centred, others = _centre_and_scale(first), _centre_and_scale(second)
    scale = math.sqrt(float(centred @ centred) * float(others @ others))
    return float(np.clip(centred @ others / scale, -1.0, 1.0))


def _centre_and_scale(values: Array) -> Array:
    """Return the values less their mean, scaled so that no square underflows or overflows.

    The first scaling is by a power of two, which is exact.
    """
    scaled = np.ldexp(values, -math.frexp(float(np.abs(values).max()))[1])
    centred = scaled - scaled.mean()
    return np.asarray(centred / np.abs(centred).max())


def _residuals(columns: Array, given: Array) -> tuple[Array, int]:
    """Return the residuals of each column on `given` (with an intercept), and the rank of `given`."""
    given = given[:, [not is_constant(column) for column in given.T]]
    design = given - given.mean(axis=0)
    design = design / np.abs(design).max(axis=0)
    centred = columns - columns.mean(axis=0)
    basis, singular, _ = np.linalg.svd(design, full_matrices=False)
    # Collinear variables remove one dimension only; 1e-10 is far above the rounding error of the SVD.
    basis = basis[:, singular > 1e-10 * singular.max(initial=0.0)]
    left = centred - basis @ (basis.T @ centred)
    # Residuals of rounding size would correlate at random.
    left[:, np.abs(left).max(axis=0) <= 1e-12 * np.abs(columns).max(axis=0)] = 0.0
    return left, basis.shape[1]
