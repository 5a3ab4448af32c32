"""The first steps of timelines, for formats that have no room for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_crucible.features.provenance.timeline import Step, Timeline
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
