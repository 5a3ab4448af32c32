"""Everything that happened to one sample in one arm, in the order of time, decisions included, and texts that formats share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from pytest_crucible.features.provenance import kinds
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.quick_dataclass import dataclass
from pytest_crucible.records.views import experiment_name
from pytest_crucible.report.printable import AN_ID, printable_cell

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


CLAIM = "says: "
"""Stands before what a model says of itself, which nothing has observed."""


class OfReply(Protocol):
    """A record about one reply, such as a timeline."""

    @property
    def experiment(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def sample(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def variant(self) -> str: ...


def heading(reply: OfReply, *, within_sample: bool = False) -> str:
    """Return what a timeline is of: experiment, sample, arm, variant and repeat; on the page of a sample without the first two.

    >>> heading(Timeline(run="3f2a", experiment="test_qa.py::test_qa", arm="v2", sample="q17", repeat=1, variant="typos"))
    'test_qa, sample q17, v2, variant typos, repeat 2'
    """
    # A training, such as one that a search has found, is of an arm alone.
    parts = {} if within_sample else {"": experiment_name(reply.experiment), "sample ": reply.sample}
    named = [f"{word}{printable_cell(name, AN_ID)}" for word, name in parts.items() if name]
    variant = [f"variant {printable_cell(reply.variant, AN_ID)}"] if reply.variant else []
    repeat = [f"repeat {reply.repeat + 1}"] if reply.repeat else []
    return ", ".join((*named, printable_cell(reply.arm, AN_ID), *variant, *repeat))


def find_start(steps: Sequence[Step]) -> float | None:
    """Return when the first step began, in seconds since 1970; None if that is not known of any step."""
    return min((step.at - (step.seconds or 0.0) for step in steps if step.at is not None), default=None)


def time_text(step: Step, start: float | None) -> str:
    """Return when a step was over, in seconds since the start; empty where that is not known.

    >>> time_text(Step(kind="wait", title="wait", at=101.25), 100.0)
    '+1.250 s'
    """
    return "" if step.at is None or start is None else f"+{step.at - start:.3f} s"


def step_text(step: Step) -> str:
    """Return the title of a step; that of a claim says so."""
    return f"{CLAIM}{step.title}" if step.is_claim else step.title


# A member's part in a call has a prompt and a reply of its own.
CALLS = ("call", "member")
_WITHIN_CALLS = (*CALLS, "wait", "request", "retry", "hedge", "vote", "cached")


def call_ends(steps: Sequence[Step]) -> dict[int, Step]:
    """Return the position of the last step of each call, where its reply had come, with the step that began it."""
    begun = {(step.call, step.member): step for step in steps if step.kind in CALLS}
    last = {(step.call, step.member): place for place, step in enumerate(steps) if step.kind in _WITHIN_CALLS}
    return {last[call]: step for call, step in begun.items()}


def unknown_text(timeline: Timeline) -> str:
    """Return why calls are not known; of an imported reply that came with its messages, what else is not."""
    # An imported run has no times. One without tracing has those of its requests, and inputs that were sent unchanged.
    is_imported = find_start(timeline.steps) is None
    has_messages = any("prompt" in step.facts for step in timeline.steps)
    if timeline.unknown and is_imported and has_messages:
        return f"{timeline.unknown} beyond their messages"
    return timeline.unknown
