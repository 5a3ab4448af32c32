"""Everything that happened to one sample in one arm, in the order of time; recorded decisions and stages are steps of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.quick_dataclass import dataclass

StepKind = Literal[
    "call", "wait", "request", "retry", "hedge", "vote", "member", "cached", "decision", "stage", "score", "end"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of a timeline."""

    kind: StepKind
    title: str
    """One line for people: `call 1: 2 messages, temperature 0`, `request 1: 429 after 0.2 s`, `decision: scan`."""
    at: float | None = None
    """Seconds since 1970 when it was over; None where that is not known, as in imported runs."""
    seconds: float | None = None
    """Its duration; None for steps without one."""
    call: int | None = None
    """Counts the calls of the reply from 1; None for steps that belong to no call."""
    request: int | None = None
    """Counts the requests of the call from 1, over retries and hedges."""
    member: str = ""
    """The member of an ensemble, or `judge:NAME`; empty for the arm's own."""
    is_claim: bool = False
    """Whether a model says it of itself: a claim, apart from what was observed."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """All else as plain data: prompt (text or messages), parameters, reply, reasoning, tokens, usd, paid_by, error, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The steps of one reply: of one sample in one arm, in one repeat, on the sample itself or on a variant of it."""

    run: str
    experiment: str
    arm: str
    sample: str
    repeat: int
    variant: str = ""
    """The name of the variant; empty for the sample itself."""
    adapter: str = ""
    """What replied, as events name it: `openai:v2`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The arm's sampling parameters, which a call may override."""
    steps: tuple[Step, ...] = ()
    unknown: str = ""
    """Why calls or decisions are not known: tracing was off, or the run was imported; empty where they are."""


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
