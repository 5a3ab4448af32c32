"""Recorded decisions and stages as steps of a timeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
            title=_title(decision, by_number),
            at=decision.at,
            seconds=seconds,
            is_claim=decision.is_claim,
            facts={
                name: list(value) if name == "over" else value
                for name in _IN_FACTS
                if (value := getattr(decision, name)) not in (None, "", ())
            },
        )


def _short(text: str, most: int = LONGEST_TITLE) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(text[: 2 * most].split())
    return line if len(line) <= most else f"{line[:most]}..."


def _title(decision: Decision, by_number: Mapping[int, Decision]) -> str:
    short = _short(decision.decision)
    if decision.kind == kinds.STAGE_STARTED:
        return f"stage {short}: started"
    if decision.kind == kinds.STAGE_COMPLETED:
        return f"stage {short}: {decision.because or 'completed'}"
    if decision.kind == kinds.UNCLOSED:
        return short
    confidence = "" if decision.confidence is None else f" (confidence {decision.confidence:g})"
    earlier = by_number.get(decision.revises or 0)
    revises = "" if earlier is None else f", instead of {_short(earlier.decision, 60)!r}"
    return f"{decision.kind}: {short}{confidence}{revises}"
