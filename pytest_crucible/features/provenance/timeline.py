"""Everything that happened to one sample in one arm, in the order of time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

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
