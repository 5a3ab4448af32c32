"""Equivalence tests: two one-sided tests (TOST, Schuirmann 1987) against declared margins.

Equivalence is proven when both tests reject at alpha, which is when the interval at level 1 - 2 alpha lies between the
margins. The p-value is the larger of the two. A large p-value of a test for a difference proves nothing of the kind.
The one-sided half is in `noninferiority`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from pytest_crucible.stats.arrays import Range
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.moments import check_enough, two_arms
from pytest_crucible.stats.means.student import bounds_of_difference, paired_differences
from pytest_crucible.stats.number_format import p_equals, with_interval, with_note
from pytest_crucible.stats.planning.margins import (
    NO_VARIATION,
    BoundedMean,
    LocatedMean,
    check_margins,
    locate_difference,
    locate_mean,
)
from pytest_crucible.stats.proportions.paired import tango_interval, tango_statistic
from pytest_crucible.stats.proportions.score import score_interval, score_statistic
from pytest_crucible.stats.results import Status
from pytest_crucible.stats.tails import normal_p_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Equivalence:
    """The result of an equivalence test. `equivalent` and the p-values are None if the data do not decide."""

    method: str
    estimate: float | None
    low: float
    """The lower margin."""
    high: float
    """The upper margin."""
    statistic_low: float | None
    """The statistic against "the true value is at most `low`"; large when the data lie above."""
    statistic_high: float | None
    """The statistic against "the true value is at least `high`"; very negative when the data lie below."""
    p_low: float | None
    p_high: float | None
    p_value: float | None
    """The larger of the two."""
    dof: tuple[float, ...]
    interval: Interval | None
    """The interval at level 1 - 2 alpha; it lies inside the margins exactly when `equivalent` is True."""
    equivalent: bool | None
    alpha: float
    n: tuple[int, ...]
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        state = {True: "yes", False: "no", None: "unknown"}[self.equivalent]
        summary = (
            f"{with_interval(self.estimate, self.interval, sign=True)}, between {self.low:g} and {self.high:g}: {state}"
        )
        n = " + ".join(f"{n:,}" for n in self.n)
        return with_note(f"{summary}, {p_equals(self.p_value)}, n={n} ({self.method})", self.note)


def tost_one_sample(
    values: npt.ArrayLike, *, low: float, high: float, alpha: float = 0.05, bounds: Range | None = None
) -> Equivalence:
    """Test whether a mean lies between `low` and `high`.

    R: t.test(x, mu=low, alternative="greater") and t.test(x, mu=high, alternative="less"). Given the `bounds` of the
    values it is Gaffke's bound on each side, which allows for values that were not observed: use it for gates. Without bounds,
    values that are all equal decide nothing. Raises ValueError unless low < high and 0 < alpha < 0.5, NotEnoughData
    below two values.

    >>> result = tost_one_sample([0.2, -0.1, 0.1, 0.0, 0.05], low=-0.3, high=0.3)
    >>> round(result.p_value, 4), result.equivalent
    (0.0037, True)
    """
    return _by_mean(locate_mean(check_enough(values), bounds, "one-sample t"), low, high, alpha)


def tost_paired(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    low: float,
    high: float,
    alpha: float = 0.05,
    bounds: Range | None = None,
) -> Equivalence:
    """Test whether the mean of candidate - baseline over pairs lies between `low` and `high`.

    R: t.test(x, y, paired=TRUE, mu=low). `bounds` are those of the scores; with them it is Gaffke's bound on each side. See
    `tost_one_sample`.

    >>> result = tost_paired([0.9, 0.7, 0.8, 0.6], [0.8, 0.7, 0.9, 0.65], low=-0.2, high=0.2)
    >>> round(result.p_value, 4), round(result.interval.low, 4), result.equivalent
    (0.0109, -0.113, True)
    """
    differences = check_enough(paired_differences(candidate, baseline))
    return _by_mean(locate_mean(differences, bounds_of_difference(bounds), "paired t"), low, high, alpha)


def tost_welch(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    low: float,
    high: float,
    alpha: float = 0.05,
    bounds: Range | None = None,
) -> Equivalence:
    """Test whether the difference of two independent means lies between `low` and `high`.

    R: t.test(x, y, mu=low). `bounds` are those of the scores; with them it is Gaffke's melded bound on each side. See
    `tost_one_sample`.

    >>> result = tost_welch([0.9, 0.7, 0.8, 0.6], [0.8, 0.7, 0.9, 0.65, 0.75], low=-0.3, high=0.3)
    >>> round(result.p_value, 4), result.equivalent
    (0.0057, True)
    """
    return _by_mean(locate_difference(*two_arms(candidate, baseline), bounds), low, high, alpha)


def tost_paired_proportions(
    gained: int, lost: int, n: int, *, low: float, high: float, alpha: float = 0.05
) -> Equivalence:
    """Test whether the difference of paired proportions lies between `low` and `high`.

    Tango's (1998) score test at each margin. `gained` pairs have only the candidate right, `lost` only the baseline;
    see `count_discordant`. Raises ValueError for margins outside [-1, 1].

    >>> result = tost_paired_proportions(6, 4, 200, low=-0.05, high=0.05)
    >>> round(result.p_value, 4), result.equivalent
    (0.0181, True)
    """
    check_margins(low, high, alpha)
    statistics = (tango_statistic(gained, lost, n, low), tango_statistic(gained, lost, n, high)) if n else None
    # Two tests at alpha each correspond to one interval at 1 - 2 alpha, not 1 - alpha.
    interval = tango_interval(gained, lost, n, level=1 - 2 * alpha)
    estimate = (gained - lost) / n if n else None
    return _by_score("tost, tango", statistics, estimate, interval, low, high, alpha, (n,))


def tost_proportions(
    x1: int, n1: int, x2: int, n2: int, *, low: float, high: float, alpha: float = 0.05, skewness: bool = True
) -> Equivalence:
    """Test whether the difference of independent proportions, x1/n1 - x2/n2, lies between `low` and `high`.

    Score tests at each margin (Farrington & Manning 1990; Miettinen & Nurminen 1985), with Laud's (2017) skewness
    correction unless it is switched off. An empty arm decides nothing.

    >>> result = tost_proportions(181, 200, 180, 200, low=-0.1, high=0.1)
    >>> round(result.p_value, 4), result.equivalent
    (0.0012, True)
    """
    check_margins(low, high, alpha)
    interval = score_interval(x1, n1, x2, n2, level=1 - 2 * alpha, skewness=skewness)
    at_low = score_statistic(x1, n1, x2, n2, difference=low, skewness=skewness)
    at_high = score_statistic(x1, n1, x2, n2, difference=high, skewness=skewness)
    statistics = None if at_low is None or at_high is None else (at_low, at_high)
    estimate = None if statistics is None else x1 / n1 - x2 / n2
    return _by_score(f"tost, {interval.method}", statistics, estimate, interval, low, high, alpha, (n1, n2))


def _by_mean(located: LocatedMean | BoundedMean, low: float, high: float, alpha: float) -> Equivalence:
    check_margins(low, high, alpha)
    p_low, p_high = located.p_value(low, "lower"), located.p_value(high, "upper")
    p_value = None if p_low is None or p_high is None else max(p_low, p_high)
    undecided = p_value is None
    return Equivalence(
        method=f"tost, {located.method}",
        estimate=located.estimate,
        low=low,
        high=high,
        statistic_low=located.statistic(low),
        statistic_high=located.statistic(high),
        p_low=p_low,
        p_high=p_high,
        p_value=p_value,
        dof=() if undecided or located.dof is None else (located.dof,),
        interval=located.interval(alpha),
        equivalent=None if p_value is None else p_value < alpha,
        alpha=alpha,
        n=located.n,
        status="degenerate" if undecided else "ok",
        note=NO_VARIATION if undecided else "",
    )


def _by_score(
    method: str,
    statistics: tuple[float, float] | None,
    estimate: float | None,
    interval: Interval,
    low: float,
    high: float,
    alpha: float,
    n: tuple[int, ...],
) -> Equivalence:
    at_low, at_high = statistics or (None, None)
    p_low = None if at_low is None else normal_p_value(at_low, "greater")
    p_high = None if at_high is None else normal_p_value(at_high, "less")
    p_value = None if p_low is None or p_high is None else max(p_low, p_high)
    return Equivalence(
        method=method,
        estimate=estimate,
        low=low,
        high=high,
        statistic_low=at_low,
        statistic_high=at_high,
        p_low=p_low,
        p_high=p_high,
        p_value=p_value,
        dof=(),
        interval=interval,
        equivalent=None if p_value is None else p_value < alpha,
        alpha=alpha,
        n=n,
        status="ok" if statistics else "insufficient_data",
        note="" if statistics else "an arm has no values: equivalence cannot be decided",
    )
