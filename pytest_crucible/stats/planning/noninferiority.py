"""Non-inferiority tests: one-sided tests that the candidate is at most a declared margin worse.

Non-inferiority is proven when the lower one-sided bound of candidate - baseline is above -margin. For a metric where
less is better, swap the arms. Given the bounds of the scores, means are tested by Gaffke's bounds: plain t
lets a candidate with rare disasters pass in 37 % of runs at n=20.
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
    check_margin,
    locate_difference,
    locate_mean,
)
from pytest_crucible.stats.proportions.paired import tango_interval, tango_statistic
from pytest_crucible.stats.proportions.score import score_interval, score_statistic
from pytest_crucible.stats.results import Status
from pytest_crucible.stats.tails import normal_p_value


@dataclass(frozen=True, slots=True, kw_only=True)
class NonInferiority:
    """The result of a non-inferiority test. `noninferior` and the p-value are None if the data do not decide."""

    method: str
    estimate: float | None
    margin: float
    statistic: float | None
    """The statistic against "the true difference is at most -margin"."""
    p_value: float | None
    dof: tuple[float, ...]
    interval: Interval | None
    """The interval at level 1 - 2 alpha. Its low end is the one-sided bound, above -margin exactly when `noninferior` is True."""
    noninferior: bool | None
    alpha: float
    n: tuple[int, ...]
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        state = {True: "yes", False: "no", None: "unknown"}[self.noninferior]
        summary = f"{with_interval(self.estimate, self.interval, sign=True)}, not worse by {self.margin:g}: {state}"
        n = " + ".join(f"{n:,}" for n in self.n)
        return with_note(f"{summary}, {p_equals(self.p_value)}, n={n} ({self.method})", self.note)


def noninferiority_paired(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    margin: float,
    alpha: float = 0.05,
    bounds: Range | None = None,
) -> NonInferiority:
    """Test whether the mean of candidate - baseline over pairs is above -margin.

    R: t.test(x, y, paired=TRUE, mu=-margin, "greater"). Given the `bounds` of the scores it is Gaffke's bound;
    without them, pairs that all differ equally decide nothing. Raises ValueError for a negative margin and unless 0 <
    alpha < 0.5, NotEnoughData below two pairs.

    >>> result = noninferiority_paired([0.9, 0.7, 0.8, 0.6], [0.8, 0.7, 0.9, 0.65], margin=0.2)
    >>> round(result.p_value, 4), round(result.interval.low, 4), result.noninferior
    (0.0109, -0.113, True)
    """
    differences = check_enough(paired_differences(candidate, baseline))
    return _by_mean(locate_mean(differences, bounds_of_difference(bounds), "paired t"), margin, alpha)


def noninferiority_welch(
    candidate: npt.ArrayLike,
    baseline: npt.ArrayLike,
    *,
    margin: float,
    alpha: float = 0.05,
    bounds: Range | None = None,
) -> NonInferiority:
    """Test whether the difference of two independent means is above -margin.

    R: t.test(x, y, mu=-margin, alternative="greater"). Given the `bounds` of the scores it is Gaffke's melded
    bound. See `noninferiority_paired`.

    >>> result = noninferiority_welch([0.9, 0.7, 0.8, 0.6], [0.8, 0.7, 0.9, 0.65, 0.75], margin=0.3)
    >>> round(result.p_value, 4), result.noninferior
    (0.0057, True)
    """
    return _by_mean(locate_difference(*two_arms(candidate, baseline), bounds), margin, alpha)


def noninferiority_paired_proportions(
    gained: int, lost: int, n: int, *, margin: float, alpha: float = 0.05
) -> NonInferiority:
    """Test whether the difference of paired proportions is above -margin, by Tango's (1998) score test.

    `gained` pairs have only the candidate right, `lost` only the baseline; see `count_discordant`.

    >>> result = noninferiority_paired_proportions(6, 4, 200, margin=0.05)
    >>> round(result.p_value, 4), result.noninferior
    (0.0015, True)
    """
    check_margin(margin, alpha)
    # The test runs at the margin, so the variance is the one that holds there, not at no difference.
    statistic = tango_statistic(gained, lost, n, -margin) if n else None
    interval = tango_interval(gained, lost, n, level=1 - 2 * alpha)
    return _by_score("tango", statistic, (gained - lost) / n if n else None, interval, margin, alpha, (n,))


def noninferiority_proportions(
    x1: int, n1: int, x2: int, n2: int, *, margin: float, alpha: float = 0.05, skewness: bool = True
) -> NonInferiority:
    """Test whether the difference of two independent proportions, x1/n1 - x2/n2, is above -margin.

    The score test at the margin (Farrington & Manning 1990; Miettinen & Nurminen 1985), with Laud's (2017) skewness
    correction unless it is switched off. An empty arm decides nothing.

    >>> result = noninferiority_proportions(181, 200, 180, 200, margin=0.1)
    >>> round(result.p_value, 5), result.noninferior
    (0.00041, True)
    """
    check_margin(margin, alpha)
    statistic = score_statistic(x1, n1, x2, n2, difference=-margin, skewness=skewness)
    interval = score_interval(x1, n1, x2, n2, level=1 - 2 * alpha, skewness=skewness)
    estimate = None if statistic is None else x1 / n1 - x2 / n2
    return _by_score(interval.method, statistic, estimate, interval, margin, alpha, (n1, n2))


def _by_mean(located: LocatedMean | BoundedMean, margin: float, alpha: float) -> NonInferiority:
    check_margin(margin, alpha)
    p_value = located.p_value(-margin, "lower")
    undecided = p_value is None
    return NonInferiority(
        method=f"non-inferiority, {located.method}",
        estimate=located.estimate,
        margin=margin,
        statistic=located.statistic(-margin),
        p_value=p_value,
        dof=() if undecided or located.dof is None else (located.dof,),
        interval=located.interval(alpha),
        noninferior=None if p_value is None else p_value < alpha,
        alpha=alpha,
        n=located.n,
        status="degenerate" if undecided else "ok",
        note=NO_VARIATION if undecided else "",
    )


def _by_score(
    method: str,
    statistic: float | None,
    estimate: float | None,
    interval: Interval,
    margin: float,
    alpha: float,
    n: tuple[int, ...],
) -> NonInferiority:
    p_value = None if statistic is None else normal_p_value(statistic, "greater")
    return NonInferiority(
        method=f"non-inferiority, {method}",
        estimate=estimate,
        margin=margin,
        statistic=statistic,
        p_value=p_value,
        dof=(),
        interval=interval,
        noninferior=None if p_value is None else p_value < alpha,
        alpha=alpha,
        n=n,
        status="ok" if p_value is not None else "insufficient_data",
        note="" if p_value is not None else "an arm has no values: non-inferiority cannot be decided",
    )
