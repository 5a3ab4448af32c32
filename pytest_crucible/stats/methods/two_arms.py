"""Methods for independent arms: candidate - baseline with interval and p-value, and one-sided bounds for margins."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.stats.arrays import Alternative, Side
from pytest_crucible.stats.inputs import Arms, mean
from pytest_crucible.stats.interval import Interval
from pytest_crucible.stats.means.clustered_arms import clustered_arms
from pytest_crucible.stats.means.melded import melded_bound, melded_p_value
from pytest_crucible.stats.means.point_mass import distance
from pytest_crucible.stats.means.two_samples import welch_t
from pytest_crucible.stats.methods.pairs import of_alikeness
from pytest_crucible.stats.proportions.two_exact import two_exact_bound, two_exact_test
from pytest_crucible.stats.resampling.alikeness import exchange_labels
from pytest_crucible.stats.results import Significance


def exact_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    result = two_exact_test(*_counts(arms), alternative=alternative, level=level)
    return replace(result, proof_p=result.p_value)


def label_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    """Return the test that the labels of the arms could be exchanged. It has no interval: that is of the means' bounds.

    Clusters that are in both arms cannot change places: then there is no such test.
    """
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    alike = exchange_labels(
        candidate.values, baseline.values, clusters=clusters, alternative=alternative, monte_carlo=arms.monte_carlo
    )
    return of_alikeness(alike, distance(mean(candidate.values), mean(baseline.values)))


def t_interval_of_arms(arms: Arms, level: float, alternative: Alternative) -> Interval | None:
    """Return Welch's t interval, by clusters CR2's: approximate, for scores without ends, whose means have no valid bound."""
    values = arms.candidate.values, arms.baseline.values
    if not arms.clustered:
        return welch_t(*values, alternative=alternative, level=level).interval
    labels = arms.candidate.labels, arms.baseline.labels
    return clustered_arms(*values, *labels, alternative=alternative, level=level).interval


# -- one-sided bounds to decide a margin by -----------------------------------------------------------------------


def exact_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return two_exact_bound(*_counts(arms), alpha=alpha, side=side)


def melded_side(arms: Arms, alpha: float, side: Side) -> float:
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    return melded_bound(
        candidate.values, baseline.values, bounds=candidate.bounds, alpha=alpha, side=side, clusters=clusters
    )


def melded_p(arms: Arms, null: float, side: Side) -> float:
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    return melded_p_value(
        candidate.values, baseline.values, null=null, bounds=candidate.bounds, side=side, clusters=clusters
    )


def _counts(arms: Arms) -> tuple[int, int, int, int]:
    candidate, baseline = arms.candidate.values, arms.baseline.values
    return int(candidate.sum()), candidate.size, int(baseline.sum()), baseline.size
