"""Drops: the original samples against their twins, by the same paired method as two arms.

Yes and no with one reply each are compared by the exact unconditional or Tango's score interval, others by the paired t or,
with groups, CR2.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_crucible.analyse.comparisons import compare_pair
from pytest_crucible.analyse.conditional import is_conditional, paired_samples
from pytest_crucible.analyse.scores import Flags, Pair
from pytest_crucible.analyse.statistics import SampleAttributes, ScoredMetric
from pytest_crucible.measures.row import Difference, End, Measured
from pytest_crucible.records import BoundedValue, Contrast
from pytest_crucible.stats.interval import Interval


def drop_difference(
    pair: Pair, attributes: SampleAttributes, chosen: Flags, end: End, alpha: float
) -> Difference | None:
    """Return twins minus original samples, positive if the twins are better, at one end of the drop."""
    # With a margin it is a difference of means, also for a metric whose arms are compared by ratios.
    contrast = Contrast(metric=pair.facts.name, baseline="", margin=0.0)
    # A reach is about two arms, not about a sample and its twin.
    facts = replace(pair.facts, reach=None)
    arms = ([ScoredMetric(facts, pair.twins)], [ScoredMetric(facts, pair.originals)])
    if is_conditional(contrast, *arms):
        chosen = paired_samples(*arms)[0 if end == "observed" else 1]
    return compare_pair(contrast, arms, attributes, chosen, _ends(pair, end), alpha)


def estimate_drop(difference: Difference | None) -> Measured:
    """Return the drop with its two-sided interval."""
    if difference is None:
        return Measured(None, None, None, "no pairs")
    return Measured(
        _minus(difference.value), _negate_interval(difference.interval), difference.clusters, difference.method
    )


def bound_drop(difference: Difference | None) -> tuple[BoundedValue, str]:
    """Return the drop with its one-sided bounds."""
    if difference is None:
        return BoundedValue(value=None, lower=None, upper=None), "none"
    bounds = BoundedValue(
        value=_minus(difference.value), lower=_minus(difference.upper), upper=_minus(difference.lower)
    )
    return bounds, difference.bounds_method


def _ends(pair: Pair, end: End) -> tuple[End, End]:
    """Return the ends of twins and samples at which the drop is lowest or highest."""
    if end == "observed":
        return "observed", "observed"
    # A drop is high where the twins are worse: low values, if higher is better.
    is_up = (end == "high") == (pair.facts.direction == "higher")
    return ("low", "high") if is_up else ("high", "low")


def _negate_interval(interval: Interval | None) -> Interval | None:
    return None if interval is None else replace(interval, low=-interval.high, high=-interval.low)


def _minus(value: float | None) -> float | None:
    # Not -0.0, which would be shown.
    return None if value is None else 0.0 - value
