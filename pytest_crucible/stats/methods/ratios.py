"""Ratios of geometric means: the comparisons of pairs and of two arms on logarithms, and back."""

from __future__ import annotations

import numpy as np

from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.counts.ratios import as_ratio, geometric_mean_ratio_paired, geometric_mean_ratio_welch
from pytest_crucible.stats.declared import OPEN, Arms, declared_arms, declared_pairs
from pytest_crucible.stats.methods import pairs, two_arms
from pytest_crucible.stats.observations import Alternative, Array


def paired_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_paired(arms.treatment.values, arms.control.values, alternative=alternative, level=level)


def clustered_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return as_ratio(pairs.cr2_test(logarithms(arms), level, alternative), "cr2 of logarithms")


def welch_logs(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return geometric_mean_ratio_welch(arms.treatment.values, arms.control.values, alternative=alternative, level=level)


def clustered_logs_of_two_arms(arms: Arms, level: float, alternative: Alternative = "two-sided") -> Significance:
    return as_ratio(two_arms.cr2_test(logarithms(arms), level, alternative), "cr2 of logarithms")


def logarithms(arms: Arms) -> Arms:
    """The same arms on the scale on which a ratio is a difference. Raises ValueError, with the count, for values of 0."""
    check_positive(arms)
    ours, theirs, labels = np.log(arms.treatment.values), np.log(arms.control.values), arms.treatment.clusters
    if arms.differences is not None:
        return declared_pairs(ours, theirs, kind="unbounded", bounds=OPEN, clusters=labels)
    both = None if labels is None else (labels, arms.control.labels)
    return declared_arms(ours, theirs, kind="unbounded", bounds=OPEN, clusters=both)


def check_positive(arms: Arms) -> None:
    """Raise ValueError, with the count, where a logarithm does not exist."""
    values = np.concatenate((arms.treatment.values, arms.control.values))
    without = int((values <= 0).sum())
    if without:
        raise ValueError(f"a ratio of geometric means needs positive values: {without} of {values.size} are not")


def geometric_mean(values: Array) -> float | None:
    """exp(mean(log)); None when a value is not above 0.

    >>> round(geometric_mean(np.array([1.0, 4.0])), 6)
    2.0
    """
    return float(np.exp(np.log(values).mean())) if values.size and values.min() > 0 else None
