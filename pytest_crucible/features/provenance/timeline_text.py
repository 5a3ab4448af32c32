"""Texts of timelines that all formats share: headings, times since the beginning, and titles of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pytest_crucible.features.provenance.timeline import Step, Timeline
from pytest_crucible.records.views import experiment_name
from pytest_crucible.report.printable import AN_ID, printable_cell

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
