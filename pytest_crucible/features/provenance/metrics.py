"""Metrics of recorded decisions: the confidence that was stated last, and counts of decisions, revisions and ambiguities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.tables import trace_events
from pytest_crucible.metrics.definition import Metric, NotApplicable, metric
from pytest_crucible.metrics.models.scorers import current_reply
from pytest_crucible.records import Reply, Sample

Row = Mapping[str, Any]
_NOT_KNOWN = NotApplicable("decisions are recorded while a session samples")
_OF_MEMBER = NotApplicable("decisions are those of the whole reply, and not of one member's")


def _decisions() -> list[Row] | NotApplicable:
    """Return the decisions of the reply that is scored, without stages and notes, or why they are not known."""
    reply = current_reply()
    if reply.feature_rows is None:
        return _NOT_KNOWN
    if reply.member:
        return _OF_MEMBER
    return [row for row in reply.feature_rows.get(trace_events.name, ()) if row["kind"] not in kinds.NOT_DECISIONS]


def _of_failures(scorer: Metric) -> Metric:
    # A decision was made, and its confidence stated, whether the test failed later or not.
    return replace(scorer, scores_failures=True)


def _count(is_counted: Callable[[Row], bool]) -> int | NotApplicable:
    decisions = _decisions()
    return decisions if isinstance(decisions, NotApplicable) else sum(map(is_counted, decisions))


@_of_failures
@metric(bounds=(0, 1), version="1", applies="reply")
def stated_confidence(reply: Reply, sample: Sample) -> float | NotApplicable:
    """The confidence that was stated last."""
    decisions = _decisions()
    if isinstance(decisions, NotApplicable):
        return decisions
    stated = [row["confidence"] for row in decisions if row["confidence"] is not None]
    return stated[-1] if stated else NotApplicable("no decision states a confidence")


@_of_failures
@metric(kind="count", version="1")
def decision_count(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of recorded decisions."""
    return _count(lambda row: True)


@_of_failures
@metric(kind="count", direction="lower", version="1")
def revision_count(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of decisions that revise an earlier one."""
    return _count(lambda row: row["revises"] is not None or row["kind"] == kinds.CONFIDENCE_UPDATED)


@_of_failures
@metric(kind="count", direction="lower", version="1")
def ambiguity_count(reply: Reply, sample: Sample) -> int | NotApplicable:
    """The number of ambiguities that were flagged."""
    return _count(lambda row: row["kind"] == kinds.AMBIGUITY_FLAGGED)
