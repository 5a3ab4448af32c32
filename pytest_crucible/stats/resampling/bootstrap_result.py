"""The result of a bootstrap, and the way from a statistic's distribution to its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from pytest_crucible.stats.interval import Interval, NotEnoughData
from pytest_crucible.stats.means.clustered import FEWEST_CLUSTERS
from pytest_crucible.stats.number_format import quantity, with_interval, with_note
from pytest_crucible.stats.resampling.distribution import Distribution
from pytest_crucible.stats.resampling.intervals import basic_interval, bca_shares, bias_correction, percentile_interval
from pytest_crucible.stats.results import Status

Method = Literal["bca", "percentile", "basic", "studentized"]
Source = Literal["enumerated", "exact", "fine grid", "resampled"]
"""All n^n resamples listed; computed on the scores' own grid; computed on a fine grid; drawn."""
# Below this many clusters a bootstrap is liberal: at a nominal 5 % it errs in 12.5 % (6 clusters) or 8.3 % (10).
FEW_CLUSTERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapResult:
    """A statistic with its bootstrap interval, and everything needed to reproduce it."""

    estimate: float
    interval: Interval | None = None
    """None if the data do not define one; `note` has the reason."""
    method: Method
    source: Source | None = None
    """How the distribution of the statistic was computed; None when nothing varies."""
    se: float | None = None
    """Standard deviation of the bootstrap distribution."""
    bias: float | None = None
    """Mean of the bootstrap distribution, less the estimate."""
    correction: float | None = None
    """BCa's z0; None for other methods and where BCa is not defined."""
    acceleration: float | None = None
    """BCa's a, by the jackknife."""
    resamples: int | None = None
    """The number of random resamples; None when none were drawn."""
    seed: int | None = None
    """None when nothing was drawn, or when the caller passed a generator."""
    n: int
    clusters: int | None = None
    status: Status = "ok"
    note: str = ""

    def __str__(self) -> str:
        summary = f"{with_interval(self.estimate, self.interval)}, n={self.n:,} (bootstrap {self.method}"
        source = "" if self.source is None else f", {self.source}"
        return with_note(f"{summary}{source})", self.note)


def complete_result(request: BootstrapResult, distribution: Distribution, *, level: float) -> BootstrapResult:
    """Return a requested result completed from the distribution: interval, standard error and bias.

    The request has the method, the estimate, the acceleration and how resamples were drawn.
    """
    if distribution.values.size == 1:
        return replace(request, status="degenerate", note="every resample gives the same value")
    result = replace(
        request,
        se=distribution.deviation,
        bias=distribution.mean - request.estimate,
        note=few_clusters_note(request.clusters),
    )
    if request.method == "percentile":
        return _with_interval(result, percentile_interval(distribution, level=level))
    if request.method == "basic":
        return _with_interval(result, basic_interval(distribution, request.estimate, level=level))
    correction = bias_correction(distribution, request.estimate)
    shares = None if request.acceleration is None else bca_shares(correction, request.acceleration, level=level)
    if shares is None:
        return replace(result, status="degenerate", note=_why_no_bca(correction, request.acceleration))
    low, high = (distribution.quantile(share) for share in shares)
    interval = Interval(low=low, high=high, level=level, method="bootstrap bca")
    return _with_interval(replace(result, correction=correction), interval)


def _with_interval(result: BootstrapResult, interval: Interval) -> BootstrapResult:
    """Return the result with its interval, or without one where it would be a single point.

    A single point would claim certainty.
    """
    if interval.low < interval.high:
        return replace(result, interval=interval)
    return replace(result, status="degenerate", note="too many ties: the interval would be a single point")


def _why_no_bca(correction: float, acceleration: float | None) -> str:
    reason = "the acceleration is too large"
    if acceleration is None:
        reason = "leaving out any one observation changes nothing"
    elif math.isinf(correction):
        reason = "all resamples lie on one side of the estimate"
    return f"BCa is not defined, because {reason}: use method='percentile'"


def check_size(n: int, clusters: int | None) -> None:
    """Raise NotEnoughData below two observations, or below five clusters where there are clusters.

    >>> check_size(10, None)
    """
    if n < 2:
        raise NotEnoughData(f"{quantity(n, 'value')}: a bootstrap interval needs at least 2")
    if clusters is not None and clusters < FEWEST_CLUSTERS:
        raise NotEnoughData(
            f"{quantity(clusters, 'cluster')}: a bootstrap of clusters needs at least {FEWEST_CLUSTERS}"
        )


def few_clusters_note(clusters: int | None) -> str:
    """Return the warning about an interval from few clusters; empty when there are enough.

    >>> few_clusters_note(50)
    ''
    """
    if clusters is None or clusters >= FEW_CLUSTERS:
        return ""
    return (
        f"{clusters} clusters: below {FEW_CLUSTERS} a bootstrap interval is too short, use clustered_interval instead"
    )


def mark_undefined(request: BootstrapResult, undefined: int, total: int) -> BootstrapResult:
    """Return the result for resamples that leave the statistic undefined.

    >>> mark_undefined(BootstrapResult(estimate=1.0, method="bca", n=3), 2, 27).note
    '2 of 27 resamples leave the statistic undefined'
    """
    return replace(request, status="degenerate", note=f"{undefined} of {total} resamples leave the statistic undefined")
