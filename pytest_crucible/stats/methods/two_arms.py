"""Methods for independent arms: candidate - baseline with interval and p-value, and one-sided bounds for margins."""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.stats.arrays import Alternative, Side
from pytest_crucible.stats.inputs import Arms
from pytest_crucible.stats.means.clustered_arms import clustered_arms
from pytest_crucible.stats.means.melded import melded_bound
from pytest_crucible.stats.means.two_samples import welch_t
from pytest_crucible.stats.proportions.two_exact import two_exact_bound, two_exact_test
from pytest_crucible.stats.results import Significance


def exact_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return two_exact_test(*_counts(arms), alternative=alternative, level=level)


def welch_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    result = welch_t(arms.candidate.values, arms.baseline.values, alternative=alternative, level=level)
    return result if result.interval else replace(result, note="neither arm varies, so the standard error is 0")


def cr2_test(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    candidate, baseline = arms.candidate, arms.baseline
    values, labels = (candidate.values, baseline.values), (candidate.labels, baseline.labels)
    return clustered_arms(*values, *labels, alternative=alternative, level=level)


# -- one-sided bounds to decide a margin by -----------------------------------------------------------------------


def exact_side(arms: Arms, alpha: float, side: Side) -> float | None:
    return two_exact_bound(*_counts(arms), alpha=alpha, side=side)


def melded_side(arms: Arms, alpha: float, side: Side) -> float:
    candidate, baseline = arms.candidate, arms.baseline
    clusters = (candidate.labels, baseline.labels) if arms.clustered else None
    return melded_bound(
        candidate.values, baseline.values, bounds=candidate.bounds, alpha=alpha, side=side, clusters=clusters
    )


def _counts(arms: Arms) -> tuple[int, int, int, int]:
    candidate, baseline = arms.candidate.values, arms.baseline.values
    return int(candidate.sum()), candidate.size, int(baseline.sum()), baseline.size
