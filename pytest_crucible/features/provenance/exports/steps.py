"""The steps of timelines for export formats: the first ones, where there is no room for all, and a time for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.features.provenance.timeline import Step, Timeline, find_start
from pytest_crucible.stats.number_format import quantity


def first_steps(timelines: Sequence[Timeline], most: int) -> list[Timeline]:
    """Return timelines with at most so many steps together, and further ones that count the steps left out."""
    first: list[Timeline] = []
    for timeline in timelines:
        room = most - sum(len(earlier.steps) for earlier in first)
        if room <= 0:
            more = _count(len(timelines) - len(first), "more timeline")
            return [*first[:-1], replace(first[-1], steps=(*first[-1].steps, more))]
        rest = len(timeline.steps) - room
        steps = timeline.steps if rest <= 1 else (*timeline.steps[:room], _count(rest, "more step"))
        first.append(replace(timeline, steps=steps))
    return first


def _count(number: int, noun: str) -> Step:
    return Step(kind="end", title=f"{quantity(number, noun)}, not shown here: .jsonl has all")


def step_times(steps: Sequence[Step]) -> list[float]:
    """Return when each step was over, in seconds since 1970. One without a time was over when the step before it was.

    >>> step_times([Step(kind="call", title=""), Step(kind="wait", title="", at=9.0, seconds=2.0), Step(kind="score", title="")])
    [7.0, 9.0, 9.0]
    """
    times: list[float] = []
    latest = find_start(steps) or 0.0
    for step in steps:
        latest = latest if step.at is None else step.at
        times.append(latest)
    return times
