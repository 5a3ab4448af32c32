"""What tests against a margin share: a mean, or a difference of two, with its error; and which margins make sense."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_crucible.records import Interval
from pytest_crucible.stats.means.augmented import augmented_moments, augmented_welch_moments
from pytest_crucible.stats.means.moments import standard_error, welch_se_and_dof
from pytest_crucible.stats.observations import Array, Range, is_constant
from pytest_crucible.stats.tails import t_interval

FLAT = "the values do not vary: without bounds they do not limit what was not seen, and decide nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a mean lies, and how well that is known. `se` is None when nothing varies and no bounds are known."""

    method: str
    estimate: float
    centre: float
    """What the t statistic is about: the estimate, or with pseudo-observations the mean of all."""
    se: float | None
    dof: float
    n: tuple[int, ...]

    def statistic(self, margin: float) -> float | None:
        """The t statistic of "the true value is `margin`"."""
        return None if self.se is None else (self.centre - margin) / self.se

    def interval(self, alpha: float) -> Interval | None:
        """The interval at 1 - 2 alpha, whose ends are the two one-sided bounds."""
        if self.se is None:
            return None
        return t_interval(self.centre, self.se, self.dof, level=1 - 2 * alpha, method=self.method)


def locate_mean(array: Array, bounds: Range | None, method: str) -> Located:
    """One mean: plain, or augmented where the bounds of the values are known.

    >>> import numpy as np
    >>> locate_mean(np.array([0.0, 0.5]), None, "t").se, locate_mean(np.array([0.0, 0.5]), (0.0, 1.0), "t").method
    (0.25, 'augmented t')
    """
    estimate, n = float(array.mean()), (array.size,)
    if bounds is not None:
        centre, se, dof = augmented_moments(array, bounds)
        return Located(method=f"augmented {method}", estimate=estimate, centre=centre, se=se, dof=dof, n=n)
    known = None if is_constant(array) else standard_error(array)
    return Located(method=method, estimate=estimate, centre=estimate, se=known, dof=array.size - 1, n=n)


def locate_difference(first: Array, second: Array, bounds: Range | None) -> Located:
    """A difference of independent means: Welch, or augmented Welch where the bounds of the scores are known.

    >>> import numpy as np
    >>> locate_difference(np.array([0.5, 0.75]), np.array([0.5, 0.5]), None).dof
    1.0
    """
    estimate, n = float(first.mean() - second.mean()), (first.size, second.size)
    if bounds is not None:
        centre, se, dof = augmented_welch_moments(first, second, bounds)
        return Located(method="augmented welch t", estimate=estimate, centre=centre, se=se, dof=dof, n=n)
    errors = tuple(0.0 if is_constant(arm) else standard_error(arm) for arm in (first, second))
    if not any(errors):
        return Located(method="welch t", estimate=estimate, centre=estimate, se=None, dof=sum(n) - 2, n=n)
    se, dof = welch_se_and_dof((errors[0], n[0] - 1), (errors[1], n[1] - 1))
    return Located(method="welch t", estimate=estimate, centre=estimate, se=se, dof=dof, n=n)


def check_alpha(alpha: float) -> None:
    """Raise ValueError unless 0 < alpha < 0.5: above that, 1 - 2 alpha is no level.

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
        raise ValueError(f"a margin is how much worse is still good enough, at least 0, not {margin!r}")


def check_margins(low: float, high: float, alpha: float) -> None:
    """Raise ValueError unless low < high and 0 < alpha < 0.5.

    >>> check_margins(-0.1, 0.1, 0.05)
    """
    check_alpha(alpha)
    if not low < high:
        raise ValueError(f"the lower margin must be below the upper one, not {low!r} and {high!r}")
