"""Judging an outcome outside a loop, by metrics that call no model."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_crucible.metrics import Metric
from pytest_crucible.records import Outcome, Reasoning, Sample
from pytest_crucible.score import FurtherScores, Scored, score_outcome


def judged_at_once(
    outcome: Outcome,
    metrics: Sequence[Metric],
    sample: Sample,
    *,
    passed: bool,
    reasoning: Reasoning = "strip",
    further: Sequence[FurtherScores] = (),
) -> Scored:
    """Score an outcome at once."""
    try:
        score_outcome(outcome, metrics, sample, passed=passed, reasoning=reasoning, further=further).send(None)
    except StopIteration as done:
        value: Scored = done.value
        return value
    raise AssertionError("a metric has waited")
