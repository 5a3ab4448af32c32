"""Expected calibration error: how far confidence is from accuracy, in ten bins of equal width.

ECE = sum over bins of n_bin / n * |mean accuracy - mean confidence|
(Naeini, Cooper & Hauskrecht 2015, AAAI; Guo et al. 2017, ICML). The bins are (0, 0.1], (0.1, 0.2], ..., (0.9, 1]; 0 belongs to the
first. The bounds are for the binned error of the population.

With the gap g = accuracy - confidence of a sample, and a sign s_b for each bin, ECE is the largest E[s_b g] over all 2^k choices
of signs for k bins. Two facts follow, and both bounds rest on the bound of a mean of values in [-1, 1]:

- The true signs are one fixed choice, and their sample mean is at most the observed ECE. So an upper bound of the mean of s_b g at
  the observed signs, which have the largest mean, covers ECE.
- Every choice of signs gives a mean that is at most ECE. The observed signs were picked from the data, so their lower bound is
  taken at alpha / 2^k, which holds for all choices at once (Bonferroni).

Plain bootstrap intervals fail here: ECE is biased upwards, and at perfect calibration it lies at the edge of its range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_crucible import stats
from pytest_crucible.measures.row import (
    Clusters,
    Difference,
    End,
    Floats,
    Measured,
    Numbers,
    Observations,
    Prepared,
    counted_clusters,
    no_bounds,
    no_data,
)
from pytest_crucible.records import BoundedValue, Measure, MetricFacts
from pytest_crucible.stats.arrays import Side
from pytest_crucible.stats.interval import Interval

METHOD = "ece of 10 bins, all signs"
# Bisection of a p-value on a logarithmic scale: sixty halvings between 1e-15 and 1 leave a relative error below 1e-13.
_SMALLEST_P = 1e-15
_HALVINGS = 60


def prepare(observations: Observations, end: End) -> Prepared:
    """Return gaps with their bins. A lost sample widens (high) or closes (low) the largest gap there is."""
    from pytest_crucible.stats.classifiers import confidence_bins

    confidence, accuracy = (column.values for column in observations.columns)
    scored = ~(np.isnan(confidence) | np.isnan(accuracy))
    values = np.concatenate([confidence[scored], accuracy[scored]])
    if not ((values >= 0) & (values <= 1)).all():
        return Prepared(values=np.array([]), problem="a confidence or an accuracy lies outside 0 to 1")
    filled = scored if end == "observed" else scored & ~observations.lost
    gaps, bins = np.zeros(len(scored)), np.zeros(len(scored))
    gaps[filled] = accuracy[filled] - confidence[filled]
    bins[filled] = confidence_bins(confidence[filled])
    if end != "observed":
        _fill_lost(gaps, bins, ~filled, widen=end == "high")
        filled = np.ones(len(scored), dtype=bool)
    clusters = observations.clusters
    return Prepared(
        values=gaps[filled],
        strata=bins[filled],
        clusters=None if clusters is None else clusters[filled],
        bounds=(0.0, 1.0),
    )


def _fill_lost(gaps: Floats, bins: Floats, lost: np.ndarray[tuple[int], np.dtype[np.bool_]], *, widen: bool) -> None:
    """Give each lost sample a gap of at most 1: together they move the sum by no more than their number."""
    sums = _sums(gaps[~lost], bins[~lost])
    for place in np.flatnonzero(lost):
        number = int(np.argmax(np.abs(sums)))
        sign = 1.0 if sums[number] >= 0 else -1.0
        gaps[place] = sign if widen else -sign * min(1.0, abs(sums[number]))
        bins[place] = number
        sums[number] += gaps[place]


def _sums(gaps: Floats, bins: Floats) -> Floats:
    from pytest_crucible.stats.classifiers import BINS

    return np.asarray(np.bincount(bins.astype(np.intp), weights=gaps, minlength=BINS), dtype=np.float64)


def estimate(prepared: Prepared, level: float) -> Measured:
    """Return ECE with its two-sided interval, which holds too often rather than too seldom."""
    if not len(prepared.values):
        return no_data(prepared)
    value, clusters = float(_sign_gaps(prepared).mean()), counted_clusters(prepared.clusters)
    low, high = _ends(prepared, (1 - level) / 2)
    if low is None or high is None:
        return Measured(value, None, clusters, "none: too few samples or clusters")
    return Measured(value, Interval(low=low, high=high, level=level, method=METHOD), clusters, METHOD)


def bound(prepared: Prepared, alpha: float) -> tuple[BoundedValue, str]:
    """Return ECE with its one-sided bounds."""
    if not len(prepared.values):
        return no_bounds(prepared)
    lower, upper = _ends(prepared, alpha)
    return BoundedValue(value=float(_sign_gaps(prepared).mean()), lower=lower, upper=upper), METHOD


def compare(first: Prepared, second: Prepared, alpha: float) -> Difference | None:
    """Return first minus second on the same samples: the mean of the difference of signed gaps, bounded for all signs at once."""
    if not len(first.values) or len(first.values) != len(second.values):
        return None
    values, clusters = _sign_gaps(first) - _sign_gaps(second), first.clusters
    choices = _choices(first), _choices(second)
    low, high = _difference_ends(values, clusters, choices, alpha / 2)
    lower, upper = _difference_ends(values, clusters, choices, alpha)
    interval = None if low is None or high is None else Interval(low=low, high=high, level=1 - alpha, method=METHOD)
    return Difference(
        value=float(values.mean()),
        interval=interval,
        p_value=None if interval is None else _p_value(values, clusters, choices),
        lower=lower,
        upper=upper,
        method=METHOD,
        bounds_method=METHOD,
        n=len(values),
        clusters=counted_clusters(clusters),
        # All choices of signs share alpha: a power formula for one mean would promise too much, so there is no deviation.
        span=1.0,
        note="too few samples or clusters to compare" if interval is None else "",
    )


def check(measure: Measure, facts: Sequence[MetricFacts]) -> str:
    """Return why these metrics have no calibration error; empty if they have one."""
    for metric in facts:
        if metric.kind not in (None, "binary") and not (metric.low >= 0 and metric.high <= 1):
            return f"{metric.name!r} lies between {metric.low:g} and {metric.high:g}: declare bounds=(0, 1)"
    return ""


def _sign_gaps(prepared: Prepared) -> Floats:
    """Return gaps with the sign of their bin's sum, so that their mean is ECE."""
    bins = np.asarray(prepared.strata, dtype=np.float64)
    signs = np.where(_sums(prepared.values, bins) >= 0, 1.0, -1.0)
    return np.asarray(signs[bins.astype(np.intp)] * prepared.values, dtype=np.float64)


def _choices(prepared: Prepared) -> int:
    """Return the number of choices of signs: only bins that hold samples have one."""
    return int(2 ** np.unique(np.asarray(prepared.strata)).size)


def _ends(prepared: Prepared, alpha: float) -> tuple[float | None, float | None]:
    values = _sign_gaps(prepared)
    lower = _side(values, prepared.clusters, (-1.0, 1.0), alpha / _choices(prepared), "lower")
    upper = _side(values, prepared.clusters, (-1.0, 1.0), alpha, "upper")
    return None if lower is None else max(0.0, lower), upper


def _difference_ends(
    values: Floats, clusters: Clusters | None, choices: tuple[int, int], alpha: float
) -> tuple[float | None, float | None]:
    """The lower end leans on the first arm's signs, which were picked from the data, the upper end on the second's."""
    lower = _side(values, clusters, (-2.0, 2.0), alpha / choices[0], "lower")
    upper = _side(values, clusters, (-2.0, 2.0), alpha / choices[1], "upper")
    return None if lower is None else max(-1.0, lower), None if upper is None else min(1.0, upper)


def _side(values: Floats, clusters: Clusters | None, bounds: Numbers, alpha: float, side: Side) -> float | None:
    return stats.mean_bound(values, kind="bounded", bounds=bounds, clusters=clusters, alpha=alpha, side=side).value


def _p_value(values: Floats, clusters: Clusters | None, choices: tuple[int, int]) -> float:
    """Return the smallest alpha at which the interval excludes 0, so that interval and p-value cannot contradict each other."""
    positive = float(values.mean()) > 0
    near, far = math.log(_SMALLEST_P), 0.0
    if not _excludes_zero(values, clusters, choices, 0.0, positive=positive):
        return 1.0
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        excludes = _excludes_zero(values, clusters, choices, middle, positive=positive)
        near, far = (near, middle) if excludes else (middle, far)
    return math.exp(far)


def _excludes_zero(
    values: Floats, clusters: Clusters | None, choices: tuple[int, int], log_p: float, *, positive: bool
) -> bool:
    side: Side = "lower" if positive else "upper"
    share = math.exp(log_p) / 2 / choices[0 if positive else 1]
    end = _side(values, clusters, (-2.0, 2.0), share, side)
    return end is not None and (end > 0 if positive else end < 0)
