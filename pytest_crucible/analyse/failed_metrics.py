"""Metrics that raised on every sample. That is an error of the suite, so the report shows the exception once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pytest_crucible.records import ArmOutcomes, Lost
from pytest_crucible.stats.number_format import quantity

# A message may quote a whole reply, and this one is a verdict's reason, which every report prints.
MOST_CHARACTERS = 300


def failed_metrics(arm: ArmOutcomes) -> Mapping[str, str]:
    """Return, for each metric without a single value in this arm, a sentence with its first error."""
    by_metric: dict[str, list[Lost]] = defaultdict(list)
    # Of a metric that applies to some samples only, the others are in its column, without a value.
    scored = {name for name, column in arm.scores.items() if any(value is not None for value in column.values)}
    for lost in arm.lost:
        if lost.metric is not None and lost.reason == "scorer" and lost.metric not in (*scored, *arm.labels):
            by_metric[lost.metric].append(lost)
    return {metric: _sentence(metric, losses) for metric, losses in by_metric.items()}


def _sentence(metric: str, losses: list[Lost]) -> str:
    samples = len({lost.unit.position for lost in losses})
    first = next((lost.detail for lost in losses if lost.detail), "").partition("\n")[0]
    error = first.removeprefix(f"metric {metric!r} ").removeprefix("raised ")
    error = error if len(error) <= MOST_CHARACTERS else f"{error[:MOST_CHARACTERS]}..."
    return f"metric {metric!r} failed on {'all ' if samples > 1 else ''}{quantity(samples, 'sample')}: {error}"
