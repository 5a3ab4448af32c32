"""Recorded decisions and stages as steps of a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.timeline import Step

LONGEST_TITLE = 200
"""Characters of a decision in the title of its step; `facts` has the whole text."""
_IN_FACTS = ("number", "kind", "decision", "over", "because", "confidence", "parent", "revises", "stage", "calls")


def steps_of_decisions(decisions: Sequence[Decision]) -> Iterator[Step]:
    """Yield a step for each decision, and for each start and end of a stage, in the order in which they were recorded."""
    by_number = {decision.number: decision for decision in decisions}
    for decision in decisions:
        started = by_number.get(decision.parent or 0) if decision.kind == kinds.STAGE_COMPLETED else None
        # Wall clocks can be set back.
        seconds = None if started is None else max((decision.at or 0.0) - (started.at or 0.0), 0.0)
        yield Step(
            kind="stage" if decision.kind in kinds.STAGES else "decision",
            title=_title(decision),
            at=decision.at,
            seconds=seconds,
            is_claim=decision.is_claim,
            facts={
                name: list(value) if name == "over" else value
                for name in _IN_FACTS
                if (value := getattr(decision, name)) not in (None, "", ())
            },
        )


def _title(decision: Decision) -> str:
    text = " ".join(decision.decision[: 2 * LONGEST_TITLE].split())
    short = text if len(text) <= LONGEST_TITLE else f"{text[:LONGEST_TITLE]}..."
    if decision.kind == kinds.STAGE_STARTED:
        return f"stage {short}: started"
    if decision.kind == kinds.STAGE_COMPLETED:
        return f"stage {short}: {decision.because or 'completed'}"
    if decision.kind == kinds.UNCLOSED:
        return short
    confidence = "" if decision.confidence is None else f" (confidence {decision.confidence:g})"
    return f"{decision.kind}: {short}{confidence}"
