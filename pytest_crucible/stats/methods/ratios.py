"""Methods for ratios of geometric means: pairs and independent arms are compared on logarithms."""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.arrays import Alternative, Array
from pytest_crucible.stats.counts.ratios import as_ratio, geometric_mean_ratio_paired, geometric_mean_ratio_welch
from pytest_crucible.stats.inputs import OPEN, Arms, declare_arms, declare_pairs
from pytest_crucible.stats.methods import pairs, two_arms
from pytest_crucible.stats.results import Significance


def paired_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_paired(
        arms.candidate.values, arms.baseline.values, alternative=alternative, level=level
    )


def clustered_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return as_ratio(pairs.cr2_test(logarithms(arms), level, alternative), "cr2 of logarithms")


def welch_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_welch(arms.candidate.values, arms.baseline.values, alternative=alternative, level=level)


def clustered_logs_of_two_arms(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return as_ratio(two_arms.cr2_test(logarithms(arms), level, alternative), "cr2 of logarithms")


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
