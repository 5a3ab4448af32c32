"""Shared parts of tests against a margin: a mean with its error, and checks of the margins."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.records import Interval
from pytest_crucible.stats.arrays import Array, Range, is_constant
from pytest_crucible.stats.means.augmented import augmented_moments, augmented_welch_moments
from pytest_crucible.stats.means.moments import standard_error, welch_se_and_dof
from pytest_crucible.stats.tails import t_interval

NO_VARIATION = "all values are equal: without bounds they decide nothing about values that were not observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedMean:
    """A mean, or a difference of two means, with its standard error and degrees of freedom.

    `se` is None when nothing varies and no bounds are given.
    """

    method: str
    estimate: float
    centre: float
    """The centre of the t statistic: the estimate, or the mean including pseudo-observations."""
    se: float | None
    dof: float
    n: tuple[int, ...]

    def statistic(self, margin: float) -> float | None:
        """Return the t statistic of "the true value is `margin`"."""
        return None if self.se is None else (self.centre - margin) / self.se

    def interval(self, alpha: float) -> Interval | None:
        """Return the interval at level 1 - 2 alpha, whose ends are the two one-sided bounds."""
        if self.se is None:
            return None
        return t_interval(self.centre, self.se, self.dof, level=1 - 2 * alpha, method=self.method)


def locate_mean(array: Array, bounds: Range | None, method: str) -> LocatedMean:
    """Return one mean with its error: plain, or augmented when the values have bounds.

    >>> import numpy as np
    >>> locate_mean(np.array([0.0, 0.5]), None, "t").se, locate_mean(np.array([0.0, 0.5]), (0.0, 1.0), "t").method
    (0.25, 'augmented t')
    """
    estimate, n = float(array.mean()), (array.size,)
    if bounds is not None:
        centre, se, dof = augmented_moments(array, bounds)
        return LocatedMean(method=f"augmented {method}", estimate=estimate, centre=centre, se=se, dof=dof, n=n)
    error = None if is_constant(array) else standard_error(array)
    return LocatedMean(method=method, estimate=estimate, centre=estimate, se=error, dof=array.size - 1, n=n)


def locate_difference(candidate: Array, baseline: Array, bounds: Range | None) -> LocatedMean:
    """Return the difference of independent means with its error: Welch, or augmented Welch with bounds.

    >>> import numpy as np
    >>> locate_difference(np.array([0.5, 0.75]), np.array([0.5, 0.5]), None).dof
    1.0
    """
    estimate, n = float(candidate.mean() - baseline.mean()), (candidate.size, baseline.size)
    if bounds is not None:
        centre, se, dof = augmented_welch_moments(candidate, baseline, bounds)
        return LocatedMean(method="augmented welch t", estimate=estimate, centre=centre, se=se, dof=dof, n=n)
    # Rounding leaves a constant arm a tiny standard error, which would make any difference look proven.
    errors = tuple(0.0 if is_constant(arm) else standard_error(arm) for arm in (candidate, baseline))
    if not any(errors):
        return LocatedMean(method="welch t", estimate=estimate, centre=estimate, se=None, dof=sum(n) - 2, n=n)
    se, dof = welch_se_and_dof((errors[0], n[0] - 1), (errors[1], n[1] - 1))
    return LocatedMean(method="welch t", estimate=estimate, centre=estimate, se=se, dof=dof, n=n)


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless 0 < alpha < 0.5: at 0.5 and above, 1 - 2 alpha is not a confidence level.

    >>> check_alpha(0.05)
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, not {alpha!r}")


def check_margin(margin: float, alpha: float) -> None:
    """Raise ValueError unless margin >= 0 and 0 < alpha < 0.5.

    >>> check_margin(0.05, 0.05)
    """
    check_alpha(alpha)
    if not margin >= 0:
        raise ValueError(f"margin, the largest loss that is still acceptable, must be at least 0, not {margin!r}")


def check_margins(low: float, high: float, alpha: float) -> None:
    """Raise ValueError unless low < high and 0 < alpha < 0.5.

    >>> check_margins(-0.1, 0.1, 0.05)
    """
    check_alpha(alpha)
    if not low < high:
        raise ValueError(f"the lower margin must be below the upper one, not {low!r} and {high!r}")
