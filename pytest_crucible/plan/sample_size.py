"""Sample sizes for a difference to detect or a margin to prove."""

from __future__ import annotations

import math

from pytest_crucible import stats
from pytest_crucible.plan.assumed_differences import assumed_differences
from pytest_crucible.plan.power import DEVIATION, DISCORDANCE
from pytest_crucible.records import PairVariability
from pytest_crucible.stats.planning.next_sample import (
    samples_for_paired_change,
    samples_for_paired_margin,
)

# Assumptions for an experiment that has not run yet.
ASSUMED = (
    PairVariability(
        nodeid="", metric="yes or no", baseline="", pairs=0, deviation=math.sqrt(DISCORDANCE), discordance=DISCORDANCE
    ),
    PairVariability(
        nodeid="", metric="a score from 0 to 1", baseline="", pairs=0, deviation=DEVIATION, discordance=None, span=1.0
    ),
)


def samples_to_detect(difference: float, spread: PairVariability, *, alpha: float, power: float) -> int | None:
    """Return the samples on which a two-sided test finds a difference of this size; None if no number is enough.

    >>> samples_to_detect(0.05, ASSUMED[0], alpha=0.05, power=0.8)
    622
    """
    if spread.discordance is not None:
        return samples_for_paired_change(difference, spread.discordance, alpha=alpha, power=power)
    if not spread.deviation or not difference:
        return None
    needed = stats.samples_for_t(abs(difference) / spread.deviation, alpha=alpha, power=power)
    return needed.ceiling


def samples_to_prove(margin: float, spread: PairVariability, *, alpha: float, power: float) -> int | None:
    """Return the samples that prove an equally good candidate no more than the margin worse; None if no number is enough.

    For a score without declared bounds no number is: nothing is proven about its mean.

    >>> samples_to_prove(0.05, ASSUMED[1], alpha=0.05, power=0.8)
    198
    >>> from dataclasses import replace
    >>> samples_to_prove(0.05, replace(ASSUMED[1], span=math.inf), alpha=0.05, power=0.8)
    """
    if spread.discordance is None:
        if math.isinf(spread.span):
            return None
        differences = assumed_differences(spread.deviation, spread.span)
        return stats.samples_by_gaffke(differences, null=-margin, end=-spread.span, alpha=alpha, power=power)
    needed = samples_for_paired_margin((-margin,), spread.discordance, alpha=alpha, power=power)
    floor = stats.samples_for_zero(min(margin, 0.999), alpha=alpha)
    return None if needed is None else max(needed, floor)
