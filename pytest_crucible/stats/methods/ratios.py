"""Methods for ratios of geometric means: pairs and independent arms are compared on logarithms."""

from __future__ import annotations

import math

import numpy as np

from pytest_crucible.stats.arrays import Alternative, Array, Codes, Range, Side
from pytest_crucible.stats.counts.ratios import (
    as_number,
    as_ratio,
    geometric_mean_ratio_paired,
    geometric_mean_ratio_welch,
)
from pytest_crucible.stats.inputs import OPEN, Arms, declare_arms, declare_pairs, mean
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.clustered import clustered_interval, clustered_mean, clustered_p_value
from pytest_crucible.stats.means.clustered_arms import clustered_arms
from pytest_crucible.stats.means.gaffke import gaffke_bound, gaffke_p_value
from pytest_crucible.stats.methods import pairs
from pytest_crucible.stats.results import Significance
from pytest_crucible.stats.tails import tail_share

# The largest ratio allowed for on samples that are too rare to be seen: a reply that loops to its token limit takes ten to
# thirty times as long. Without a limit no bound holds; with 100, 200 samples could not prove 10 %.
LARGEST_UNSEEN = 30.0


def paired_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_paired(
        arms.candidate.values, arms.baseline.values, alternative=alternative, level=level
    )


def clustered_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    observed = pairs.differences(logarithms(arms))
    mean_log = clustered_mean(observed.values, observed.labels)
    interval = clustered_interval(mean_log, level=level, alternative=alternative)
    p_value = clustered_p_value(mean_log, alternative=alternative)
    statistic = mean_log.estimate / mean_log.se if mean_log.se else None
    answer = Significance(
        method="cr2",
        statistic=statistic,
        dof=(mean_log.dof,),
        interval=interval,
        p_value=p_value,
        estimate=mean_log.estimate,
        se=mean_log.se,
        status="ok" if mean_log.se else "degenerate",
    )
    return as_ratio(answer, "cr2 of logarithms")


def welch_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_welch(arms.candidate.values, arms.baseline.values, alternative=alternative, level=level)


def clustered_logs_of_two_arms(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    logs = logarithms(arms)
    values, labels = (logs.candidate.values, logs.baseline.values), (logs.candidate.labels, logs.baseline.labels)
    answer = clustered_arms(*values, *labels, alternative=alternative, level=level)
    return as_ratio(answer, "cr2 of logarithms")


def gaffke_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return as_ratio(log_claim(arms, level, alternative), "gaffke of logarithms")


def log_claim(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return Gaffke's two bounds for the mean logarithm of the pairs' ratios, and the p-value that agrees with them."""
    values, ends, clusters = log_ratios_and_ends(arms)
    tail = tail_share(1 - level, alternative)
    low = -math.inf if alternative == "less" else log_side(arms, tail, "lower")
    high = math.inf if alternative == "greater" else log_side(arms, tail, "upper")
    lower, upper = (gaffke_p_value(values, null=0.0, end=ends[side], side=side, clusters=clusters) for side in ends)
    return Significance(
        method="gaffke",
        statistic=None,
        p_value={"greater": lower, "less": upper, "two-sided": min(1.0, 2 * lower, 2 * upper)}[alternative],
        estimate=mean(values),
        interval=Interval(low=low, high=high, level=level, method="gaffke"),
        n=(values.size,),
    )


# -- one-sided bounds to decide a margin by -----------------------------------------------------------------------


def gaffke_logs_side(arms: Arms, alpha: float, side: Side) -> float:
    return as_number(log_side(arms, alpha, side))


def log_side(arms: Arms, alpha: float, side: Side) -> float:
    """Return Gaffke's bound for the mean logarithm of the pairs' ratios."""
    values, ends, clusters = log_ratios_and_ends(arms)
    return gaffke_bound(values, end=ends[side], alpha=alpha, side=side, clusters=clusters)


def welch_logs_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return _end(welch_logs(arms, 1 - 2 * alpha), side)


def clustered_logs_of_two_arms_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return _end(clustered_logs_of_two_arms(arms, 1 - 2 * alpha), side)


def _end(result: Significance, side: Side) -> float | None:
    # Each end of a two-sided interval at 1 - 2 alpha is a one-sided bound at alpha.
    if result.interval is None:
        return None
    return result.interval.low if side == "lower" else result.interval.high


def log_ratios_and_ends(arms: Arms) -> tuple[Array, dict[Side, float], Codes | None]:
    """Return the logarithms of the pairs' ratios, their ends, and the clusters."""
    observed = pairs.differences(logarithms(arms))
    reach = log_reach(observed.values, arms.candidate.bounds)
    return observed.values, {"lower": -reach, "upper": reach}, observed.clusters


def log_reach(log_ratios: Array, bounds: Range) -> float:
    """Return the largest logarithm of a ratio that the bounds allow for, among seen and unseen pairs.

    It follows from declared bounds above 0; otherwise it is that of LARGEST_UNSEEN, or the largest of these pairs.

    >>> log_reach(np.array([0.1, -0.2]), (1.0, 30.0)) == log_reach(np.array([0.1, -0.2]), OPEN) == math.log(30)
    True
    """
    if bounds[0] > 0 and math.isfinite(bounds[1]):
        return math.log(bounds[1] / bounds[0])
    return max(math.log(LARGEST_UNSEEN), float(np.abs(log_ratios).max(initial=0.0)))


def logarithms(arms: Arms) -> Arms:
    """Return the arms on the log scale, where a ratio is a difference. Raises ValueError, with the count, for 0."""
    check_positive(arms)
    candidate, baseline, labels = np.log(arms.candidate.values), np.log(arms.baseline.values), arms.candidate.clusters
    if arms.differences is not None:
        return declare_pairs(candidate, baseline, kind="unbounded", bounds=OPEN, clusters=labels)
    # Labels of independent arms stay paired with their own arm.
    both_labels = None if labels is None else (labels, arms.baseline.labels)
    return declare_arms(candidate, baseline, kind="unbounded", bounds=OPEN, clusters=both_labels)


def check_positive(arms: Arms) -> None:
    """Raise ValueError, with the count, for values that have no logarithm."""
    values = np.concatenate((arms.candidate.values, arms.baseline.values))
    without = int((values <= 0).sum())
    if without:
        raise ValueError(f"a ratio of geometric means needs positive values: {without} of {values.size} are not")


def geometric_mean(values: Array) -> float | None:
    """Return exp(mean(log)); None when a value is not above 0.

    >>> round(geometric_mean(np.array([1.0, 4.0])), 6)
    2.0
    """
    return float(np.exp(np.log(values).mean())) if values.size and values.min() > 0 else None
