"""Shared parts of tests against a margin: a mean with the bounds that decide, and checks of the margins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_crucible.stats.arrays import Array, Range, Side, is_constant
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.gaffke import gaffke_bound, gaffke_p_value
from pytest_crucible.stats.means.melded import melded_bound, melded_p_value
from pytest_crucible.stats.means.moments import check_inside, standard_error, welch_se_and_dof
from pytest_crucible.stats.tails import t_interval, t_p_value

NO_VARIATION = "all values are equal: without bounds they decide nothing about values that were not observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedMean:
    """A mean, or a difference of two means, with its standard error and degrees of freedom.

    `se` is None when nothing varies.
    """

    method: str
    estimate: float
    se: float | None
    dof: float
    n: tuple[int, ...]

    def statistic(self, margin: float) -> float | None:
        """Return the t statistic of "the true value is `margin`"."""
        return None if self.se is None else (self.estimate - margin) / self.se

    def p_value(self, margin: float, side: Side) -> float | None:
        """Return the p-value of the bound on this side: for "lower", evidence that the true value is above `margin`."""
        statistic = self.statistic(margin)
        return None if statistic is None else t_p_value(statistic, self.dof, "greater" if side == "lower" else "less")

    def interval(self, alpha: float) -> Interval | None:
        """Return the interval at level 1 - 2 alpha, whose ends are the two one-sided bounds."""
        if self.se is None:
            return None
        return t_interval(self.estimate, self.se, self.dof, level=1 - 2 * alpha, method=self.method)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedMean:
    """A mean, or a difference of two means, of values between two ends, by Gaffke's bounds.

    It has neither a t statistic nor degrees of freedom.
    """

    method: str
    estimate: float
    n: tuple[int, ...]
    bound: Callable[[float, Side], float]
    """Return the one-sided bound at an alpha."""
    test: Callable[[float, Side], float]
    """Return the p-value of a bound: for "lower", evidence that the true value is above a margin."""
    dof: None = None

    def statistic(self, margin: float) -> None:
        return None

    def p_value(self, margin: float, side: Side) -> float:
        return self.test(margin, side)

    def interval(self, alpha: float) -> Interval:
        """Return the interval at level 1 - 2 alpha, whose ends are the two one-sided bounds."""
        low, high = self.bound(alpha, "lower"), self.bound(alpha, "upper")
        return Interval(low=low, high=high, level=1 - 2 * alpha, method=self.method)


def locate_mean(array: Array, bounds: Range | None, method: str) -> LocatedMean | BoundedMean:
    """Return one mean with its error, or with Gaffke's bounds when the values have bounds.

    >>> import numpy as np
    >>> locate_mean(np.array([0.0, 0.5]), None, "t").se, locate_mean(np.array([0.0, 0.5]), (0.0, 1.0), "paired t").method
    (0.25, 'paired gaffke')
    """
    estimate, n = float(array.mean()), (array.size,)
    if bounds is not None:
        check_inside(array, bounds)
        ends: dict[Side, float] = {"lower": bounds[0], "upper": bounds[1]}
        return BoundedMean(
            method=f"{method.removesuffix(' t')} gaffke",
            estimate=estimate,
            n=n,
            bound=lambda alpha, side: gaffke_bound(array, end=ends[side], alpha=alpha, side=side),
            test=lambda margin, side: gaffke_p_value(array, null=margin, end=ends[side], side=side),
        )
    error = None if is_constant(array) else standard_error(array)
    return LocatedMean(method=method, estimate=estimate, se=error, dof=array.size - 1, n=n)


def locate_difference(candidate: Array, baseline: Array, bounds: Range | None) -> LocatedMean | BoundedMean:
    """Return the difference of independent means with its error (Welch), or with Gaffke's melded bounds.

    >>> import numpy as np
    >>> locate_difference(np.array([0.5, 0.75]), np.array([0.5, 0.5]), None).dof
    1.0
    """
    estimate, n = float(candidate.mean() - baseline.mean()), (candidate.size, baseline.size)
    if bounds is not None:
        for arm in (candidate, baseline):
            check_inside(arm, bounds)
        return BoundedMean(
            method="melded gaffke",
            estimate=estimate,
            n=n,
            bound=lambda alpha, side: melded_bound(candidate, baseline, bounds=bounds, alpha=alpha, side=side),
            test=lambda margin, side: melded_p_value(candidate, baseline, null=margin, bounds=bounds, side=side),
        )
    # Rounding leaves a constant arm a tiny standard error, which would make any difference look proven.
    errors = tuple(0.0 if is_constant(arm) else standard_error(arm) for arm in (candidate, baseline))
    if not any(errors):
        return LocatedMean(method="welch t", estimate=estimate, se=None, dof=sum(n) - 2, n=n)
    se, dof = welch_se_and_dof((errors[0], n[0] - 1), (errors[1], n[1] - 1))
    return LocatedMean(method="welch t", estimate=estimate, se=se, dof=dof, n=n)


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
