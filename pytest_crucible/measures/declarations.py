"""Facts about values that the declaration of a measure alone shows: range, direction, and the metric that is planned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_crucible.records import Measure, MetricFacts

if TYPE_CHECKING:
    from pytest_crucible.measures.row import Numbers

RISING = (">=", ">")
"""The relations that hold for larger values."""


def any_proof(measure: Measure, facts: MetricFacts) -> str:
    return ""


def metric_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return facts.low, facts.high


def rate_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return 0.0, 1.0


def any_range(measure: Measure, facts: MetricFacts) -> Numbers:
    return -math.inf, math.inf


def metric_direction(measure: Measure, facts: MetricFacts) -> bool:
    """Return the direction of the metric; a condition with < or <= reverses it."""
    falling = measure.inner_relation is not None and measure.inner_relation not in RISING
    return (facts.direction == "higher") != falling


def mean_facts(measure: Measure, facts: MetricFacts) -> MetricFacts:
    """Return the facts of the value whose mean the statistic is: a condition makes it yes or no."""
    if measure.inner_relation is None:
        return facts
    return MetricFacts(name=measure.expression, kind="binary", low=0.0, high=1.0, direction=facts.direction)
