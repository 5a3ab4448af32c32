"""What a bootstrap answers, and the way from the law of a statistic to that answer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.numerals import counted, noted, with_interval
from pytest_crucible.records import Interval
from pytest_crucible.stats.answers import Status
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS
from pytest_crucible.stats.resampling.intervals import basic_interval, bca_shares, bias_correction, percentile_interval
from pytest_crucible.stats.resampling.law import Law

Method = Literal["bca", "percentile", "basic", "studentized"]
Source = Literal["enumerated", "exact", "fine grid", "resampled"]
"""All n^n resamples listed; computed on the scores' own grid; computed on a fine grid; drawn."""
FEW_CLUSTERS = 20
"""Below this many clusters a bootstrap is liberal: at a nominal 5 % it errs in 12.5 % (6 clusters) or 8.3 % (10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrapped:
    """A statistic with its bootstrap interval, and everything needed to have the same again."""

    estimate: float
    interval: Interval | None = None
    """None where the data do not define one; `note` says why."""
    method: Method
    source: Source | None = None
    """How the law of the statistic was found; None when nothing varies."""
    se: float | None = None
    """Standard deviation of the bootstrap law."""
    bias: float | None = None
    """Mean of the bootstrap law, less the estimate."""
    correction: float | None = None
    """BCa's z0; None where BCa was not asked for or is not defined."""
    acceleration: float | None = None
    """BCa's a, by the jackknife."""
    resamples: int | None = None
    """How many were drawn; None when nothing was."""
    seed: int | None = None
    """None when nothing was drawn, or when the generator was the caller's."""
    n: int
    clusters: int | None = None
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        found = f"{with_interval(self.estimate, self.interval)}, n={self.n:,} (bootstrap {self.method}"
        source = "" if self.source is None else f", {self.source}"
        return noted(f"{found}{source})", self.note)


def answered(asked: Bootstrapped, law: Law, *, level: float) -> Bootstrapped:
    """The answer that was asked for (method, estimate, acceleration, how it was drawn), completed from the law."""
    if law.values.size == 1:
        return replace(asked, status="degenerate", note="every resample gives the same value")
    found = replace(asked, se=law.deviation, bias=law.mean - asked.estimate, note=few_clusters_note(asked.clusters))
    if asked.method == "percentile":
        return _unless_a_point(found, percentile_interval(law, level=level))
    if asked.method == "basic":
        return _unless_a_point(found, basic_interval(law, asked.estimate, level=level))
    correction = bias_correction(law, asked.estimate)
    shares = None if asked.acceleration is None else bca_shares(correction, asked.acceleration, level=level)
    if shares is None:
        return replace(found, status="degenerate", note=_why_no_bca(correction, asked.acceleration))
    low, high = (law.quantile(share) for share in shares)
    interval = Interval(low=low, high=high, level=level, method="bootstrap bca")
    return _unless_a_point(replace(found, correction=correction), interval)


def _unless_a_point(found: Bootstrapped, interval: Interval) -> Bootstrapped:
    """A single value would claim certainty."""
    if interval.low < interval.high:
        return replace(found, interval=interval)
    return replace(found, status="degenerate", note="too many ties: the interval would be a single point")


def _why_no_bca(correction: float, acceleration: float | None) -> str:
    why = "the acceleration is too large"
    if acceleration is None:
        why = "leaving any one out changes nothing"
    elif math.isinf(correction):
        why = "all resamples lie on one side of the estimate"
    return f"BCa is not defined, because {why}: ask for the percentile method"


def check_size(n: int, clusters: int | None) -> None:
    """Raise NotEnoughData below two observations, or below five clusters where there are clusters.

    >>> check_size(10, None)
    """
    if n < 2:
        raise NotEnoughData(f"{counted(n, 'value')}: a bootstrap interval needs at least 2")
    if clusters is not None and clusters < FEWEST_CLUSTERS:
        raise NotEnoughData(f"{counted(clusters, 'cluster')}: a bootstrap of clusters needs at least {FEWEST_CLUSTERS}")


def few_clusters_note(clusters: int | None) -> str:
    """What is to be said about an interval from few clusters; empty where nothing is.

    >>> few_clusters_note(50)
    ''
    """
    if clusters is None or clusters >= FEW_CLUSTERS:
        return ""
    return f"{clusters} clusters: below {FEW_CLUSTERS} a bootstrap interval is too short, prefer clustered_interval"


def no_interval(asked: Bootstrapped, undefined: int, of: int) -> Bootstrapped:
    """The answer where some resamples leave the statistic undefined.

    >>> no_interval(Bootstrapped(estimate=1.0, method="bca", n=3), 2, 27).note
    '2 of 27 resamples leave the statistic undefined'
    """
    return replace(asked, status="degenerate", note=f"{undefined} of {of} resamples leave the statistic undefined")
