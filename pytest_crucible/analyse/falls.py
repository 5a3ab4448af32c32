"""The smallest loss that a comparison of means sees where replies fall to the worst value."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric, prepare, row_of
from pytest_crucible.measures.row import Difference, Flags
from pytest_crucible.records import Contrast
from pytest_crucible.stats.planning.proof import detectable_by_falls


def detectable_falls(
    difference: Difference | None,
    contrast: Contrast,
    baseline: Sequence[ScoredMetric],
    attributes: SampleAttributes,
    pairs: Flags,
    alpha: float,
) -> float | None:
    """Return the smallest loss that as many pairs show with 80 % power, if samples fall from the baseline's value to the worst.

    None for yes or no, whose changes are falls already, and without a worst value.
    """
    row = row_of(contrast)
    if difference is None or not difference.deviation or difference.discordance is not None or not row.is_mean:
        return None
    if row.is_total or difference.ratio or difference.detectable is not None:
        return None
    before = prepare(contrast, baseline, attributes, pairs)
    worst = before.bounds[0 if row.higher_is_better(contrast, baseline[0].facts) else 1]
    # A metric that applies to other replies in each arm has no value to fall from on some samples.
    if not math.isfinite(worst) or np.isnan(before.values).any():
        return None
    # Without a value where the metric does not apply to the baseline's reply.
    falls = np.abs(before.values[np.isfinite(before.values)] - worst)
    if falls.size < 2:
        return None
    return detectable_by_falls(difference.n, difference.deviation, falls, dof=difference.dof, alpha=alpha)
