"""The order of time of the steps of one reply."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_crucible.features.provenance.decision_steps import steps_of_decisions
from pytest_crucible.features.provenance.decisions import Decision
from pytest_crucible.features.provenance.timeline import Step

_Part = tuple[int | None, str]
"""A call and its member."""


def order_steps(calls: Sequence[Step], events: Sequence[Step], decisions: Sequence[Decision]) -> list[Step]:
    """Return the steps of calls, of their events and of decisions in the order of time.

    A call begins with its first event. One without any, as of a copied reply, follows the calls and the decisions before it.
    """
    of_decisions = [(step.at or -math.inf, 0, step) for step in steps_of_decisions(decisions)]
    of_calls = [(start, 1, step) for start, step in zip(_starts(calls, events, decisions), calls, strict=True)]
    of_events = [(step.at or -math.inf, 2, step) for step in events]
    # At one time, a call comes before its events and after what was decided before it.
    return [step for _, _, step in sorted([*of_decisions, *of_calls, *of_events], key=lambda entry: entry[:2])]


def _starts(calls: Sequence[Step], events: Sequence[Step], decisions: Sequence[Decision]) -> Iterator[float]:
    """Yield when each step of a call began."""
    began = _first_times([*events, *calls])
    latest = -math.inf
    for step in calls:
        before = [each.at for each in decisions if each.at is not None and each.calls < (step.call or 0)]
        latest = step.at or began.get((step.call, step.member), max(latest, *before, -math.inf))
        yield latest


def _first_times(steps: Sequence[Step]) -> dict[_Part, float]:
    """Return when the first step of each call and each member's part in it began."""
    began: dict[_Part, float] = {}
    for step in steps:
        if step.at is not None:
            # A call of an ensemble begins with the first of its members.
            for part in {(step.call, step.member), (step.call, "")}:
                began[part] = min(began.get(part, math.inf), step.at - (step.seconds or 0.0))
    return began
