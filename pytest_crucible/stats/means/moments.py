"""Building blocks of tests of means: size checks, standard errors, tails of t and z, and intervals of n equal observations.

A standard error of 0 would claim certainty. Instead, n equal observations show that at most a share 1 - alpha^(1/n) of
the population differs (the rule of three); that share may lie anywhere inside the bounds.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.stats.arrays import (
    ROUNDING,
    Alternative,
    Array,
    Range,
    Side,
    check_alternative,
    check_share,
    finite,
    is_finite_range,
)
from pytest_crucible.stats.distributions import normal_cdf, normal_quantile, t_cdf, t_quantile
from pytest_crucible.stats.exact_sums import exact_sum
from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.number_format import quantity


def t_p_value(statistic: float, dof: float, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a t statistic; R: 2 * pt(-abs(t), df)."""
    check_alternative(alternative)
    if alternative == "two-sided":
        return 2 * t_cdf(dof, -abs(statistic))
    return t_cdf(dof, -statistic if alternative == "greater" else statistic)


def normal_p_value(z: float, alternative: Alternative = "two-sided") -> float:
    """Return the p-value of a standard normal statistic; R: 2 * pnorm(-abs(z))."""
    check_alternative(alternative)
    if alternative == "two-sided":
        return 2 * normal_cdf(-abs(z))
    return normal_cdf(-z if alternative == "greater" else z)


def t_interval(
    estimate: float, se: float, dof: float, *, level: float, method: str, alternative: Alternative = "two-sided"
) -> Interval:
    """Return estimate -+ t * se; one-sided alternatives have one infinite end, as in R's t.test."""
    check_share(level, "level")
    # The lower quantile with its sign changed: 1 - tail would lose the digits of a small tail.
    half = -t_quantile(dof, tail_share(1 - level, alternative)) * se
    low = -math.inf if alternative == "less" else estimate - half
    high = math.inf if alternative == "greater" else estimate + half
    return Interval(low=low, high=high, level=level, method=method)


def normal_interval(estimate: float, se: float, *, level: float, method: str) -> Interval:
    """Return estimate -+ z * se."""
    check_share(level, "level")
    half = -normal_quantile((1 - level) / 2) * se
    return Interval(low=estimate - half, high=estimate + half, level=level, method=method)


def tail_share(error: float, alternative: Alternative) -> float:
    """Return the share of an error rate in each tested tail: half of it; for a one-sided alternative all."""
    check_alternative(alternative)
    return error / 2 if alternative == "two-sided" else error


def check_enough(values: npt.ArrayLike, *, fewest: int = 2) -> Array:
    """Return finite values. Raises NotEnoughData below `fewest` of them.

    >>> check_enough([1, 2])
    array([1., 2.])
    """
    array = finite(values)
    if array.size < fewest:
        raise NotEnoughData(f"{quantity(array.size, 'value')}: a mean's uncertainty needs at least {fewest}")
    return array


def two_arms(candidate: npt.ArrayLike, baseline: npt.ArrayLike, *, fewest: int = 2) -> tuple[Array, Array]:
    """Return two independent arms as arrays. Raises NotEnoughData below `fewest` values in either."""
    arms = finite(candidate, name="candidate values"), finite(baseline, name="baseline values")
    sizes = arms[0].size, arms[1].size
    if min(sizes) < fewest:
        raise NotEnoughData(f"{sizes[0]} and {sizes[1]} values: each arm needs at least {fewest}")
    return arms


def check_inside(array: Array, bounds: Range) -> None:
    """Raise ValueError for values outside the bounds.

    A frequent cause: the bounds of scores are not those of their differences.

    >>> check_inside(np.array([0.0, 1.0]), (0.0, 1.0))
    """
    # Averaging repeats may move a value out of the bounds by rounding.
    slack = 1e-9 * (bounds[1] - bounds[0])
    outside = int(((array < bounds[0] - slack) | (array > bounds[1] + slack)).sum())
    if outside:
        raise ValueError(f"{outside} of {array.size} values lie outside the bounds {bounds!r}: correct either")


def standard_error(array: Array) -> float:
    """Return the standard deviation (n - 1) over the root of n, by two passes."""
    return standard_deviation(array) / math.sqrt(array.size)


def standard_deviation(array: Array) -> float:
    """Return the standard deviation (n - 1), also where the squares would underflow or overflow.

    >>> float(f"{standard_deviation(np.array([1e200, 3e200, 5e200])):.9g}")
    2e+200
    """
    return Spread.of(array).deviation


@dataclass(frozen=True, slots=True)
class Spread:
    """The sums behind a t interval of independent values, the same for every order of them."""

    n: int
    mean: float
    low: float
    high: float
    squares: float
    """The sum of `squared_distances`."""

    @classmethod
    def of(cls, array: Array) -> Spread:
        mean, low, high = exact_sum(array) / array.size, float(array.min()), float(array.max())
        return cls(array.size, mean, low, high, exact_sum(squared_distances(array, mean, low, high)))

    @property
    def is_constant(self) -> bool:
        """True when the values vary by no more than rounding."""
        return self.high - self.low <= ROUNDING * max(abs(self.low), abs(self.high))

    @property
    def deviation(self) -> float:
        """The standard deviation (n - 1)."""
        return _size(self.low, self.high) * math.sqrt(self.squares / (self.n - 1)) if self.n > 1 else math.nan

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(self.n)


def squared_distances(values: Array, mean: float, low: float, high: float) -> Array:
    """Return the squared distances from the mean, in units of the largest value."""
    return np.square((values - mean) / _size(low, high))


def _size(low: float, high: float) -> float:
    # Differences of likelihoods may be so small that their squares are 0.
    return max(abs(low), abs(high)) or 1.0


def t_end(estimate: float, se: float, dof: float, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound: the estimate -+ the (1 - alpha) quantile of t times the standard error.

    >>> round(t_end(1.0, 0.5, 10, alpha=0.05, side="lower"), 4)
    0.0938
    """
    half = -t_quantile(dof, alpha) * se
    return estimate - half if side == "lower" else estimate + half


def welch_se_and_dof(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    """Return standard error and Satterthwaite dof of a difference, from (standard error, dof) of each arm. Welch 1947.

    >>> welch_se_and_dof((0.3, 3.0), (0.0, 9.0))
    (0.3, 3.0)
    """
    se = math.hypot(first[0], second[0])
    # Shares of the variance: the squares of tiny standard errors would underflow.
    shares = (first[0] / se) ** 2, (second[0] / se) ** 2
    return se, 1 / (shares[0] ** 2 / first[1] + shares[1] ** 2 / second[1])


SMALLEST = math.ulp(0.0)
"""The smallest positive float: p-values below it are returned as this, never as 0."""


def point_mass_interval(
    value: float, n: int, *, bounds: Range | None, level: float = 0.95, alternative: Alternative = "two-sided"
) -> Interval | None:
    """Return the interval for a mean when n independent observations equal `value` and the population is in `bounds`.

    None without finite bounds. Each end alone errs in at most a share 1 - level, so a one-sided alternative only moves the other
    end to infinity.
    """
    check_share(level, "level")
    check_alternative(alternative)
    if bounds is None or not is_finite_range(bounds):
        return None
    # Solves (1 - unseen)^n = 1 - level: the largest share that n draws miss with probability 1 - level.
    unseen = 1 - (1 - level) ** (1 / n)
    low = -math.inf if alternative == "less" else value - unseen * (value - bounds[0])
    high = math.inf if alternative == "greater" else value + unseen * (bounds[1] - value)
    return Interval(low=low, high=high, level=level, method="point mass")


def point_mass_p_value(value: float, n: int, *, bounds: Range) -> float:
    """Return the smallest alpha at which `point_mass_interval` excludes 0; 1 when it never does.

    >>> round(point_mass_p_value(1.0, 5, bounds=(-1.0, 1.0)), 5)
    0.03125
    """
    if value == 0:
        return 1.0
    opposite = abs(bounds[0] if value > 0 else bounds[1])
    # Only a population with observations on the other side of 0 could have a mean of 0.
    return max((opposite / (opposite + abs(value))) ** n, SMALLEST)


def equal_differences_p_value(difference: float, n: int, alternative: Alternative = "two-sided") -> float:
    """Return the exact sign-flip p-value of n differences that all equal `difference`; 1 when it is 0.

    >>> equal_differences_p_value(0.1, 6, "greater"), equal_differences_p_value(0.1, 6, "less")
    (0.015625, 1.0)
    """
    # Two of the 2^n sign patterns.
    extreme = max(2.0 ** (1 - n), SMALLEST) if n else 1.0
    return _p_value_towards(difference, extreme, extreme / 2, alternative)


def constant_arms_p_value(difference: float, n: tuple[int, int], alternative: Alternative = "two-sided") -> float:
    """Return the exact permutation p-value of two constant arms: 2 / C(n1 + n2, n1), or 1 when they are equal.

    >>> round(constant_arms_p_value(1.0, (4, 5)), 9)
    0.015873016
    """
    # An exact integer: it exceeds a float's range for arms of about 500 values.
    splits = math.comb(n[0] + n[1], n[0])
    return _p_value_towards(difference, min(1.0, 2 / splits), 1 / splits, alternative)


def distance(value: float, other: float) -> float:
    """Return value - other, with a rounding error set to 0.

    >>> distance(0.1 + 0.2, 0.3), distance(0.5, 0.25)
    (0.0, 0.25)
    """
    return 0.0 if abs(value - other) <= ROUNDING * max(abs(value), abs(other)) else value - other


def _p_value_towards(difference: float, two_sided: float, one_sided: float, alternative: Alternative) -> float:
    check_alternative(alternative)
    if difference == 0:
        return 1.0
    if alternative == "two-sided":
        return max(two_sided, SMALLEST)
    return max(one_sided, SMALLEST) if (difference > 0) == (alternative == "greater") else 1.0
