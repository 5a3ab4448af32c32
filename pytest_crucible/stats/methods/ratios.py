"""Ratios of geometric means: the comparisons of pairs and of two arms on logarithms, and back."""

from __future__ import annotations

import numpy as np

from pytest_crucible.errors import NotEnoughData
from pytest_crucible.stats.answers import Significance
from pytest_crucible.stats.counts.ratios import as_ratio, geometric_mean_ratio_paired, geometric_mean_ratio_welch
from pytest_crucible.stats.declared import OPEN, Arms, declared_arms, declared_pairs
from pytest_crucible.stats.methods import pairs, two_arms
from pytest_crucible.stats.observations import Array


def paired_logs(arms: Arms, level: float) -> Significance:
    return geometric_mean_ratio_paired(*_positive(arms), level=level)


def clustered_logs(arms: Arms, level: float) -> Significance:
    ours, theirs = (np.log(values) for values in _positive(arms))
    logs = declared_pairs(ours, theirs, kind="unbounded", bounds=OPEN, clusters=arms.treatment.clusters)
    return as_ratio(pairs.cr2_test(logs, level), "cr2 of logarithms")


def welch_logs(arms: Arms, level: float) -> Significance:
    return geometric_mean_ratio_welch(*_positive(arms), level=level)


def clustered_logs_of_two_arms(arms: Arms, level: float) -> Significance:
    ours, theirs = (np.log(values) for values in _positive(arms))
    labels = arms.treatment.labels, arms.control.labels
    logs = declared_arms(ours, theirs, kind="unbounded", bounds=OPEN, clusters=labels)
    return as_ratio(two_arms.cr2_test(logs, level), "cr2 of logarithms")


def geometric_mean(values: Array) -> float | None:
    """exp(mean(log)); None when a value is not above 0.

    >>> round(geometric_mean(np.array([1.0, 4.0])), 6)
    2.0
    """
    return float(np.exp(np.log(values).mean())) if values.size and values.min() > 0 else None


def _positive(arms: Arms) -> tuple[Array, Array]:
    """Treatment and control. Raises NotEnoughData where a logarithm does not exist."""
    values = arms.treatment.values, arms.control.values
    without = sum(int((one <= 0).sum()) for one in values)
    if without:
        raise NotEnoughData(f"{without} values are not above 0, and a ratio of geometric means needs all to be")
    return values
