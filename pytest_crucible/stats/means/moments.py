"""Building blocks of t tests: size checks, standard errors and one-sided ends."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import scipy

from pytest_crucible.stats.arrays import Array, Range, Side, finite
from pytest_crucible.stats.interval import NotEnoughData
from pytest_crucible.stats.number_format import quantity


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
    """Return two independent arms as arrays. Raises NotEnoughData below `fewest` values in either.

    >>> two_arms([1, 2], [3, 4, 5])
    (array([1., 2.]), array([3., 4., 5.]))
    """
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
    """Return the standard deviation (n - 1) over the root of n, by two passes.

    >>> standard_error(np.array([0.5, 0.75]))
    0.125
    """
    return standard_deviation(array) / math.sqrt(array.size)


def standard_deviation(array: Array) -> float:
    """Return the standard deviation (n - 1), also where the squares would underflow or overflow.

    >>> float(f"{standard_deviation(np.array([1e200, 3e200, 5e200])):.9g}")
    2e+200
    """
    # Differences of likelihoods may be so small that their squares are 0.
    size = float(np.abs(array).max()) or 1.0
    return size * float((array / size).std(ddof=1))


def t_end(estimate: float, se: float, dof: float, *, alpha: float, side: Side) -> float:
    """Return a one-sided bound: the estimate -+ the (1 - alpha) quantile of t times the standard error.

    >>> round(t_end(1.0, 0.5, 10, alpha=0.05, side="lower"), 4)
    0.0938
    """
    half = -float(scipy.special.stdtrit(dof, alpha)) * se
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
