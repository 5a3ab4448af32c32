"""Warn where neighbouring samples of the dataset resemble each other: independent samples would be fewer."""

from __future__ import annotations

import numpy as np

from pytest_crucible.analyse.statistics import SampleAttributes, row_of
from pytest_crucible.measures.row import Prepared
from pytest_crucible.measures.table import GEOMETRIC, comparison_row
from pytest_crucible.records import Contrast, MetricFacts


def order_note(
    contrast: Contrast, facts: MetricFacts, candidate: Prepared, baseline: Prepared, attributes: SampleAttributes
) -> str:
    """Return a warning about the differences of a mean in the order of the dataset; empty where there is nothing to warn about.

    Samples with groups, whose likeness is counted, and runs in another order have none.
    """
    is_ordered = attributes.clusters is None and attributes.look_alpha is None and not attributes.random_factors
    arms = candidate.values, baseline.values
    if not is_ordered or not row_of(contrast).is_mean or arms[0].size != arms[1].size:
        return ""
    if comparison_row(contrast, facts) is GEOMETRIC:
        with np.errstate(divide="ignore"):
            arms = np.log(arms[0]), np.log(arms[1])
    with np.errstate(invalid="ignore"):
        differences = arms[0] - arms[1]
    if not np.isfinite(differences).all():
        return ""
    # It needs scipy, which a session without a comparison does not load.
    from pytest_crucible.stats.checks import is_noteworthy, serial_correlation

    serial = serial_correlation(differences, rng=attributes.monte_carlo.seed)
    if serial is None or not is_noteworthy(serial):
        return ""
    return (
        f"{contrast.expression}: samples that follow each other in the dataset resemble each other (correlation "
        f"{serial.correlation:.2f}), so that {serial.n:,} count like about {max(serial.effective_n, 1):,.0f} independent ones, and "
        "p-values and bounds are too sure: give the samples groups"
    )
